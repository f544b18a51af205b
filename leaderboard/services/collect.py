"""Collecting: a language model's outputs on an evaluation set, shard by shard, into one artefact."""

import logging
import platform
import time
from functools import lru_cache, partial
from importlib.metadata import version

import pyarrow as pa
import torch
from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction

from leaderboard.models import LanguageModel, Run, Work
from leaderboard.services import artefacts
from leaderboard.services.leases import Lease, claimed
from leaderboard.services.queue import enqueue
from scoring.artefacts import SCHEMAS
from scoring.language_models import BUNDLED, LoadedModel, Precision, load
from scoring.likelihood import LikelihoodSettings, SpecialTokens, TextLikelihood, token_log_likelihoods

log = logging.getLogger(__name__)

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")


def collect(run: Run) -> None:
    """Do a slice of `run`: load the model, score the shards that are missing, and when none is, store the artefact.

    Safe to call twice, late, or from two workers: one claims the run, the others return at once.
    """
    with claimed(run) as lease:
        if lease is None:
            return
        texts = artefacts.load(run.protocol.evaluation_set.artefact)
        shards = range(-(-texts.num_rows // settings.SHARD_TEXTS))
        begin(run, lease, texts.num_rows, len(shards))
        missing = [number for number in shards if not default_storage.exists(shard_name(run, number))]
        if missing:
            how = LikelihoodSettings(**run.protocol.parameters)
            loaded = load_model(run.model, how.precision)
            lease.note(at_once=True, special_tokens=SpecialTokens.of(loaded, how).shown(loaded))
            for number in missing:
                collect_shard(run, lease, loaded, how, texts, number)
        whole = pa.concat_tables([artefacts.get(shard_name(run, number), "likelihoods") for number in shards])
        artefact = artefacts.store(whole, "likelihoods")
        with transaction.atomic():
            lease.finish(artefact=artefact, done=texts.num_rows)
            for scoring in run.scorings.filter(state=Work.State.QUEUED):
                transaction.on_commit(partial(enqueue, scoring))
        remove_shards(run, len(shards))
        log.info("%s: collected in %.0f s", run, run.seconds)
    run.refresh_from_db()
    if run.state == Work.State.QUEUED and run.not_before is None:
        enqueue(run)  # the slice is over, not the run: others get their turn first


def begin(run: Run, lease: Lease, texts: int, shards: int) -> None:
    """Note the size of the run and what it runs on. Shards of another environment are not mixed in: they go."""
    here = environment()
    if run.environment != here:
        remove_shards(run, shards)
        run.seconds = 0
    done = sum(
        min(settings.SHARD_TEXTS, texts - number * settings.SHARD_TEXTS)
        for number in range(shards)
        if default_storage.exists(shard_name(run, number))
    )
    lease.note(at_once=True, total=texts, done=done, environment=here, seconds=run.seconds)
    run.total, run.done, run.environment = texts, done, here


def collect_shard(
    run: Run, lease: Lease, loaded: LoadedModel, how: LikelihoodSettings, texts: pa.Table, number: int
) -> None:
    """Score the texts of one shard and write it to the storage, noting progress after every batch."""
    began = time.monotonic()
    shard = texts.slice(number * settings.SHARD_TEXTS, settings.SHARD_TEXTS)
    before, seconds = run.done, run.seconds

    def progress(finished: int) -> None:
        lease.check()
        run.done, run.seconds = before + finished, seconds + time.monotonic() - began
        lease.note(done=run.done, seconds=run.seconds)

    lease.check()
    likelihoods = list(token_log_likelihoods(loaded, shard["text"].to_pylist(), how, progress))
    artefacts.put(to_table(shard["id"], likelihoods), "likelihoods", shard_name(run, number))
    run.done, run.seconds = before + shard.num_rows, seconds + time.monotonic() - began
    lease.note(at_once=True, done=run.done, seconds=run.seconds)
    log.info("%s: %d of %d texts (%d%%)", run, run.done, run.total, run.percent)


def to_table(ids: pa.ChunkedArray, likelihoods: list[TextLikelihood]) -> pa.Table:
    """Rows of the `likelihoods` schema."""
    columns = [
        ids,
        [item.tokens for item in likelihoods],
        [item.unscorable and item.unscorable.value for item in likelihoods],
        [item.windows for item in likelihoods],
    ]
    schema = SCHEMAS["likelihoods"]
    return pa.table(
        [
            pa.chunked_array([column], type=field.type) if isinstance(column, list) else column
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def shard_name(run: Run, number: int) -> str:
    """Where a checkpoint lies on the storage."""
    return f"shards/run-{run.pk}/{settings.SHARD_TEXTS}-{number:05d}.parquet"


def remove_shards(run: Run, shards: int) -> None:
    """Drop the checkpoints of a run."""
    for number in range(shards):
        default_storage.delete(shard_name(run, number))


def environment() -> dict[str, str]:
    """What the numbers may depend on beside model, texts and protocol."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu ({platform.machine()})"
    return {"python": platform.python_version(), "device": device, **{name: version(name) for name in LIBRARIES}}


def load_model(model: LanguageModel, precision: Precision) -> LoadedModel:
    """The weights of `model`, kept until another model is asked for. Raises ModelRefused when they changed."""
    location = str(BUNDLED / model.location) if model.source == LanguageModel.Source.BUNDLED else model.location
    source = "hub" if model.source == LanguageModel.Source.HUB else "gguf" if location.endswith(".gguf") else "folder"
    return _load(source, location, model.revision, precision)


@lru_cache(maxsize=1)
def _load(source: str, location: str, revision: str, precision: Precision) -> LoadedModel:
    return load(
        source, location, revision, endpoint=settings.HUB_ENDPOINT, token=settings.HUB_TOKEN, precision=precision
    )
