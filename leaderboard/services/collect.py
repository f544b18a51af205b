"""Collecting: a language model's outputs on an evaluation set, shard by shard, into one artefact."""

import logging
import platform
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urldefrag

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings
from django.db import transaction

from leaderboard.models import LanguageModel, Protocol, Run, Work
from leaderboard.services import artefacts, cages
from leaderboard.services.devices import device_name
from leaderboard.services.folders import name_of_model
from leaderboard.services.leases import Lease, claimed, given_back
from leaderboard.services.queue import enqueue
from leaderboard.services.shards import Shards
from leaderboard.services.submission_log import say
from scoring.cage import CagedModel
from scoring.evaluation_sets import prompts_from_table
from scoring.generation import CompletionsServer, GenerationSettings, continuations_table, server_continuations
from scoring.generation.continuation import NOT_FINITE
from scoring.language_models import LoadedFile, NotFinite, Precision
from scoring.language_models.tokenizer_report import BENIGN, HARMFUL, report_tokenizer
from scoring.likelihood import LikelihoodSettings, Unscorable
from scoring.self_test_result import VERSION

log = logging.getLogger(__name__)

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
# Continuations of a shard. Batches are cut within a shard, so it is no setting: another size, other roundings.
SHARD_CONTINUATIONS = 1000

Progress = Callable[[int], None]  # texts of the shard finished so far
Make = Callable[[pa.Table, Progress], pa.Table]  # the outputs of a part of the texts
Begun = tuple[Make, dict[str, Any]]  # and what to note of the run


@dataclass(frozen=True)
class Method:
    """How a protocol collects: the kind of its artefact, the texts of a shard, and what makes outputs of texts.

    `begin` is entered with the run and its texts once there is something to do, for as long as there is; it may load a
    model, and gives what to note of the run.
    """

    kind: str
    shard_texts: int
    begin: Callable[[Run, pa.Table, Lease], AbstractContextManager[Begun]]


def collect(run: Run) -> bool:
    """Do a slice of `run`: load the model, do the shards that are missing, and when none is, store the artefact.

    Safe to call twice, late, or from two workers: one claims the run, the others return at once. Says which one it was.
    """
    with claimed(run) as lease:
        if lease is None:
            return False
        texts = artefacts.load(run.protocol.evaluation_set.artefact)
        method = method_of(run.model, run.protocol)
        here = environment_of(run.model)
        shards = Shards(run, method.kind, texts.num_rows, method.shard_texts, made_with=dependencies_of(run, here))
        lease.note(at_once=True, environment=here)
        if missing := shards.missing():
            if len(missing) == len(shards.numbers()):
                title = run.protocol.evaluation_set.title
                say(run, f"{what_is_loaded(run.model)} Its outputs on {title} are collected.")
            with given_back(Run, name_of_model(run.model)), method.begin(run, texts, lease) as (make, noted):
                lease.note(at_once=True, **noted)
                for number in shards.work_off(lease, lambda bounds, progress: make(_part(texts, bounds), progress)):
                    log.info("%s: shard %d of %d", run, number + 1, len(shards.numbers()))
                    say_how_far(run, number, len(shards.numbers()))
        outputs = shards.whole()
        if count := count_not_finite(outputs):
            shards.remove()
            raise NotFinite(f"{run.model.name} gives no finite likelihood for {count:,} of {outputs.num_rows:,} texts")
        artefact = artefacts.store(outputs, method.kind)
        with transaction.atomic():
            lease.finish(artefact=artefact, total=texts.num_rows, done=texts.num_rows)
            for scoring in run.scorings.filter(state=Work.State.QUEUED):
                transaction.on_commit(partial(enqueue, scoring))
        shards.remove()
        log.info("%s: collected in %.0f s", run, run.seconds)
        say(run, f"All {texts.num_rows:,} texts of {run.protocol.evaluation_set.title} are collected.")
    return True


def count_not_finite(outputs: pa.Table) -> int:
    """Texts whose likelihoods were not finite numbers, or that were not written because of that.

    None may be: to leave such texts out would let a model choose what it is measured by.
    """
    column = "unscorable" if "unscorable" in outputs.column_names else "error"
    return int(pc.sum(pc.is_in(outputs[column], pa.array([Unscorable.NOT_FINITE.value, NOT_FINITE]))).as_py() or 0)


def what_is_loaded(model: LanguageModel) -> str:
    """The first step of collecting, as a sentence."""
    if model.source == LanguageModel.Source.SERVER:
        return "The model is asked over its server."
    return "The weights are loaded."


def say_how_far(run: Run, number: int, shards: int) -> None:
    """A line for each tenth that is collected, of however many shards; not for the last, which has its own."""
    if 10 * number // shards < 10 * (number + 1) // shards < 10:
        say(run, f"{100 * (number + 1) // shards}% of {run.protocol.evaluation_set.title} is collected.")


def _part(texts: pa.Table, bounds: slice) -> pa.Table:
    return texts.slice(bounds.start, bounds.stop - bounds.start)


def method_of(model: LanguageModel, protocol: Protocol) -> Method:
    """How `model` is asked for its outputs under `protocol`."""
    if protocol.method == Protocol.LIKELIHOOD:
        return Method("likelihoods", settings.SHARD_TEXTS, _likelihoods)
    begin = _served if model.source == LanguageModel.Source.SERVER else _generated
    return Method("continuations", max(1, SHARD_CONTINUATIONS // (protocol.k or 1)), begin)


@contextmanager
def _likelihoods(run: Run, every_text: pa.Table, lease: Lease) -> Iterator[Begun]:
    how = LikelihoodSettings(**run.protocol.parameters)
    with cages.open_model(run.model, how.precision, lease) as (caged, files):

        def make(texts: pa.Table, progress: Progress) -> pa.Table:
            return caged.likelihoods(texts["id"].to_pylist(), texts["text"].to_pylist(), how, progress)

        noted = note_model(run, how.precision, caged, files, every_text)
        yield make, {"special_tokens": caged.special_tokens(how), **noted}


@contextmanager
def _generated(run: Run, every_text: pa.Table, lease: Lease) -> Iterator[Begun]:
    how = GenerationSettings(**run.protocol.parameters)
    with cages.open_model(run.model, how.precision, lease) as (caged, files):

        def make(texts: pa.Table, progress: Progress) -> pa.Table:
            return caged.continuations(texts, how, run.protocol.method == Protocol.REGARD, progress)

        yield make, note_model(run, how.precision, caged, files, every_text)


def self_test_of(model: LanguageModel, precision: Precision, caged: CagedModel) -> dict[str, Any]:
    """The self-test that the model passed here before, in this precision and with these libraries, or else passes now.

    Raises ModelRefused.
    """
    here = environment()
    tested = Run.objects.filter(model=model, self_test__version=VERSION, self_test__precision=precision)
    for run in tested:
        if run.self_test["environment"] == here:
            passed: dict[str, Any] = run.self_test
            return passed
    report = caged.self_test()
    log.info("%s: self-test passed in %.1f s, largest difference %.1e", model, report.seconds, report.difference)
    return report.as_json() | {"environment": here}


@contextmanager
def _served(run: Run, _every_text: pa.Table, _lease: Lease) -> Iterator[Begun]:
    how = GenerationSettings(**run.protocol.parameters)
    url, name = urldefrag(run.model.location)
    server = CompletionsServer(
        url, name, key=settings.COMPLETIONS_API_KEY, concurrency=settings.COMPLETIONS_CONCURRENCY
    )

    def make(texts: pa.Table, progress: Progress) -> pa.Table:
        prompts = prompts_from_table(texts)
        return continuations_table(prompts, server_continuations(server, prompts, how, progress))

    yield make, {}


def dependencies_of(run: Run, here: dict[str, str]) -> dict[str, Any]:
    """What the outputs of a run depend on: model, protocol, texts, and `here`, the environment."""
    model, texts = run.model, run.protocol.evaluation_set.artefact
    return {
        "model": [model.source, model.location, model.revision, model.kind],
        "protocol": run.protocol.sha256,
        "texts": texts.sha256 if texts else "",
        "epoch": run.epoch,
        "environment": here,
    }


def environment_of(model: LanguageModel) -> dict[str, str]:
    """What the outputs of `model` may depend on beside model, texts and protocol."""
    return {"server": urldefrag(model.location).url} if model.source == LanguageModel.Source.SERVER else environment()


def environment() -> dict[str, str]:
    """Versions of the libraries that compute here, and the device."""
    return {"python": platform.python_version(), "device": device_name(), **{name: version(name) for name in LIBRARIES}}


def note_model(
    run: Run, precision: Precision, caged: CagedModel, files: Sequence[LoadedFile], texts: pa.Table
) -> dict[str, Any]:
    """What is noted of a run: the files that its model was loaded from, how its self-test went, and what its tokenizer
    read of all the texts.

    The seed of the canary sentences is drawn once a run, and kept with it: nobody knows it before.
    """
    noted: dict[str, Any] = {
        "loaded_files": [asdict(file) for file in files],
        "self_test": self_test_of(run.model, precision, caged),
    }
    if not run.tokenizer_report:
        embeddings, seed = caged.architecture.vocabulary, secrets.token_hex(16)
        report = report_tokenizer(caged.read_texts, embeddings, texts["text"].to_pylist(), groups_of(texts), seed)
        noted["tokenizer_report"] = report.as_json()
    return noted


def groups_of(texts: pa.Table) -> dict[str, np.ndarray]:
    """Which of the texts [n] are harmful, benign, and about which demographic, where their set says so."""
    groups: dict[str, np.ndarray] = {}
    if "harmful" in texts.column_names:
        harmful = texts["harmful"].fill_null(False).to_numpy()
        groups |= {HARMFUL: harmful, BENIGN: ~harmful}
    if "demographics" in texts.column_names:
        members = texts["demographics"].combine_chunks()
        rows, names = members.value_parent_indices().to_numpy(), members.flatten().to_numpy(zero_copy_only=False)
        for name in np.unique(names.astype(str)):
            groups[str(name)] = np.isin(np.arange(texts.num_rows), rows[names == name])
    return groups
