"""Collecting: a language model's outputs on an evaluation set, shard by shard, into one artefact."""

import logging
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urldefrag

import pyarrow as pa
import pyarrow.compute as pc
import torch
from django.conf import settings
from django.db import transaction

from leaderboard.models import LanguageModel, Protocol, Run, Work
from leaderboard.services import artefacts, cages
from leaderboard.services.leases import Lease, claimed
from leaderboard.services.queue import enqueue
from leaderboard.services.shards import Shards
from leaderboard.services.submission_log import say
from scoring.cage import CagedModel
from scoring.evaluation_sets import prompts_from_table
from scoring.generation import CompletionsServer, GenerationSettings, continuations_table, server_continuations
from scoring.generation.engine import NOT_FINITE
from scoring.language_models import NotFinite, Precision
from scoring.likelihood import LikelihoodSettings, Unscorable
from scoring.self_test import VERSION

log = logging.getLogger(__name__)

LIKELIHOOD = "likelihood"  # the method of a protocol; every other is a generation protocol
REGARD = "regard"
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
# Continuations of a shard. Batches are cut within a shard, so it is no setting: another size, other roundings.
SHARD_CONTINUATIONS = 1000

Progress = Callable[[int], None]  # texts of the shard finished so far
Make = Callable[[pa.Table, Progress], pa.Table]  # the outputs of a part of the texts


@dataclass(frozen=True)
class Method:
    """How a protocol collects: the kind of its artefact, the texts of a shard, and what makes outputs of texts.

    `begin` is entered once there is something to do, for as long as there is; it may load a model, and gives what to
    note of the run.
    """

    kind: str
    shard_texts: int
    begin: Callable[[Lease], AbstractContextManager[tuple[Make, dict[str, Any]]]]


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
        shards = Shards(run, method.kind, texts.num_rows, method.shard_texts, made_with=here)
        lease.note(at_once=True, environment=here)
        if missing := shards.missing():
            if len(missing) == len(shards.numbers()):
                title = run.protocol.evaluation_set.title
                say(run, f"{what_is_loaded(run.model)} Its outputs on {title} are collected.")
            with method.begin(lease) as (make, noted):
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
    run.refresh_from_db()
    if run.state == Work.State.QUEUED and run.not_before is None:
        enqueue(run)  # the slice is over, not the run: others get their turn first
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
    if protocol.method == LIKELIHOOD:
        return Method("likelihoods", settings.SHARD_TEXTS, partial(_likelihoods, model, protocol))
    begin = _served if model.source == LanguageModel.Source.SERVER else _generated
    return Method("continuations", max(1, SHARD_CONTINUATIONS // (protocol.k or 1)), partial(begin, model, protocol))


@contextmanager
def _likelihoods(model: LanguageModel, protocol: Protocol, lease: Lease) -> Iterator[tuple[Make, dict[str, Any]]]:
    how = LikelihoodSettings(**protocol.parameters)
    with cages.open_model(model, how.precision, lease) as caged:

        def make(texts: pa.Table, progress: Progress) -> pa.Table:
            return caged.likelihoods(texts["id"].to_pylist(), texts["text"].to_pylist(), how, progress)

        tested = self_test_of(model, how.precision, caged)
        yield make, {"special_tokens": caged.special_tokens(how), "self_test": tested}


@contextmanager
def _generated(model: LanguageModel, protocol: Protocol, lease: Lease) -> Iterator[tuple[Make, dict[str, Any]]]:
    how = GenerationSettings(**protocol.parameters)
    with cages.open_model(model, how.precision, lease) as caged:

        def make(texts: pa.Table, progress: Progress) -> pa.Table:
            return caged.continuations(texts, how, protocol.method == REGARD, progress)

        yield make, {"self_test": self_test_of(model, how.precision, caged)}


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
def _served(model: LanguageModel, protocol: Protocol, _lease: Lease) -> Iterator[tuple[Make, dict[str, Any]]]:
    how = GenerationSettings(**protocol.parameters)
    url, name = urldefrag(model.location)
    server = CompletionsServer(
        url, name, key=settings.COMPLETIONS_API_KEY, concurrency=settings.COMPLETIONS_CONCURRENCY
    )

    def make(texts: pa.Table, progress: Progress) -> pa.Table:
        prompts = prompts_from_table(texts)
        return continuations_table(prompts, server_continuations(server, prompts, how, progress))

    yield make, {}


def environment_of(model: LanguageModel) -> dict[str, str]:
    """What the outputs of `model` may depend on beside model, texts and protocol."""
    return {"server": urldefrag(model.location).url} if model.source == LanguageModel.Source.SERVER else environment()


def environment() -> dict[str, str]:
    """Versions of the libraries that compute here, and the device."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu ({platform.machine()})"
    return {"python": platform.python_version(), "device": device, **{name: version(name) for name in LIBRARIES}}
