"""Collecting: a language model's outputs on an evaluation set, shard by shard, into one artefact."""

import logging
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urldefrag

import pyarrow as pa
import torch
from django.conf import settings
from django.db import transaction

from leaderboard.models import LanguageModel, Protocol, Run, Work
from leaderboard.services import artefacts
from leaderboard.services.leases import claimed
from leaderboard.services.queue import enqueue
from leaderboard.services.shards import Shards
from leaderboard.services.submission_log import say
from scoring.evaluation_sets import prompts_from_table
from scoring.generation import (
    CompletionsServer,
    GenerationSettings,
    continuations,
    continuations_table,
    server_continuations,
    with_log_perplexities,
)
from scoring.language_models import BUNDLED, LoadedFile, LoadedModel, Precision, load_files, place
from scoring.likelihood import LikelihoodSettings, SpecialTokens, likelihoods_table, token_log_likelihoods

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

    `begin` is called once there is something to do; it may load a model, and returns what to note of the run.
    """

    kind: str
    shard_texts: int
    begin: Callable[[], tuple[Make, dict[str, Any]]]


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
            fresh = len(missing) == len(shards.numbers())
            make, noted = method.begin()
            if fresh:
                say(
                    run,
                    f"{what_is_loaded(run.model)} Its outputs on {run.protocol.evaluation_set.title} are collected.",
                )
            lease.note(at_once=True, **noted)
            for number in shards.work_off(lease, lambda bounds, progress: make(_part(texts, bounds), progress)):
                log.info("%s: shard %d of %d", run, number + 1, len(shards.numbers()))
                say_how_far(run, number, len(shards.numbers()))
        artefact = artefacts.store(shards.whole(), method.kind)
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


def what_is_loaded(model: LanguageModel) -> str:
    """The first step of collecting, as a sentence."""
    if model.source == LanguageModel.Source.SERVER:
        return "The model is asked over its server."
    return (
        "The weights are fetched and loaded." if model.source == LanguageModel.Source.HUB else "The weights are loaded."
    )


def say_how_far(run: Run, number: int, shards: int) -> None:
    """A line for each tenth that is collected, of however many shards; not for the last, which has its own."""
    if 10 * number // shards < 10 * (number + 1) // shards < 10:
        say(run, f"{100 * (number + 1) // shards}% of {run.protocol.evaluation_set.title} is collected.")


def _part(texts: pa.Table, bounds: slice) -> pa.Table:
    return texts.slice(bounds.start, bounds.stop - bounds.start)


def method_of(model: LanguageModel, protocol: Protocol) -> Method:
    """How `model` is asked for its outputs under `protocol`."""
    if protocol.method == LIKELIHOOD:
        return Method("likelihoods", settings.SHARD_TEXTS, lambda: _likelihoods(model, protocol))
    begin = _served if model.source == LanguageModel.Source.SERVER else _generated
    return Method("continuations", max(1, SHARD_CONTINUATIONS // (protocol.k or 1)), lambda: begin(model, protocol))


def _likelihoods(model: LanguageModel, protocol: Protocol) -> tuple[Make, dict[str, Any]]:
    how = LikelihoodSettings(**protocol.parameters)
    loaded, files = load_model(model, how.precision)

    def make(texts: pa.Table, progress: Progress) -> pa.Table:
        found = list(token_log_likelihoods(loaded, texts["text"].to_pylist(), how, progress))
        return likelihoods_table(texts["id"].to_pylist(), found)

    return make, {"special_tokens": SpecialTokens.of(loaded, how).shown(loaded), **noted_files(files)}


def _generated(model: LanguageModel, protocol: Protocol) -> tuple[Make, dict[str, Any]]:
    how = GenerationSettings(**protocol.parameters)
    loaded, files = load_model(model, how.precision)

    def make(texts: pa.Table, progress: Progress) -> pa.Table:
        prompts = prompts_from_table(texts)
        found = continuations(loaded, prompts, how, progress)
        if protocol.method == REGARD:
            found = with_log_perplexities(loaded, prompts, found)
        return continuations_table(prompts, found)

    return make, noted_files(files)


def _served(model: LanguageModel, protocol: Protocol) -> tuple[Make, dict[str, Any]]:
    how = GenerationSettings(**protocol.parameters)
    url, name = urldefrag(model.location)
    server = CompletionsServer(
        url, name, key=settings.COMPLETIONS_API_KEY, concurrency=settings.COMPLETIONS_CONCURRENCY
    )

    def make(texts: pa.Table, progress: Progress) -> pa.Table:
        prompts = prompts_from_table(texts)
        return continuations_table(prompts, server_continuations(server, prompts, how, progress))

    return make, {}


def environment_of(model: LanguageModel) -> dict[str, str]:
    """What the outputs of `model` may depend on beside model, texts and protocol."""
    return {"server": urldefrag(model.location).url} if model.source == LanguageModel.Source.SERVER else environment()


def environment() -> dict[str, str]:
    """Versions of the libraries that compute here, and the device."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu ({platform.machine()})"
    return {"python": platform.python_version(), "device": device, **{name: version(name) for name in LIBRARIES}}


def noted_files(files: Sequence[LoadedFile]) -> dict[str, Any]:
    """What is noted of a run, of the files that its model was loaded from."""
    return {"loaded_files": [asdict(file) for file in files]}


def load_model(model: LanguageModel, precision: Precision) -> tuple[LoadedModel, tuple[LoadedFile, ...]]:
    """The weights of `model`, kept until another model is asked for, and the files that they came from.

    Raises ModelRefused when they changed.
    """
    location = str(BUNDLED / model.location) if model.source == LanguageModel.Source.BUNDLED else model.location
    source = "hub" if model.source == LanguageModel.Source.HUB else "gguf" if location.endswith(".gguf") else "folder"
    return _load(source, location, model.revision, precision)


@lru_cache(maxsize=1)
def _load(
    source: str, location: str, revision: str, precision: Precision
) -> tuple[LoadedModel, tuple[LoadedFile, ...]]:
    placed = place(
        source,
        location,
        revision,
        endpoint=settings.HUB_ENDPOINT,
        token=settings.HUB_TOKEN,
        quota=settings.HUB_CACHE_BYTES,
    )
    return load_files(placed.path, location, precision=precision), placed.files
