"""Collecting: a language model's outputs on an evaluation set, shard by shard, into one artefact."""

import logging
import platform
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urldefrag

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings
from django.db import transaction

from leaderboard.models import LanguageModel, Run, Work
from leaderboard.services import artefacts, cages
from leaderboard.services.devices import device_name, name_of_precision, require_fast_precision
from leaderboard.services.folders import name_of_model
from leaderboard.services.leases import Lease, claim, give_back_if_unable
from leaderboard.services.queue import enqueue
from leaderboard.services.served import first_revision, open_successor, server_of, snapshot_of, way_of
from leaderboard.services.shards import Shards
from leaderboard.services.spending import set_aside
from leaderboard.services.submission_log import say
from scoring.cage import CagedModel
from scoring.generation import ChatService
from scoring.generation.continuation import NOT_FINITE
from scoring.language_models import LoadedFile, NotFinite, Precision, RevisionChanged
from scoring.language_models.tokenizer_report import BENIGN, HARMFUL, report_tokenizer
from scoring.likelihood import Unscorable
from scoring.self_test_result import VERSION
from scoring.served import CompletionsServer, ServiceChanged, open_session

log = logging.getLogger(__name__)

LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")

Progress = Callable[[int], None]  # texts of the shard finished so far
Make = Callable[[pa.Table, Progress], pa.Table]  # the outputs of a part of the texts
Begun = tuple[Make, dict[str, Any]]  # and what to note of the run


def collect(run: Run) -> bool:
    """Do a slice of `run`: load the model, do the shards that are missing, and when none is, store the artefact.

    Safe to call twice, late, or from two workers: one claims the run, the others return at once. Returns whether this
    call claimed it.
    """
    with claim(run) as lease:
        if lease is None:
            return False
        texts = artefacts.load(run.protocol.evaluation_set.artefact)
        kind = run.protocol.outputs.artefact
        current_environment = environment_of(run.model)
        size = run.protocol.outputs.texts_per_shard(settings.SHARD_TEXTS, run.protocol.parameters)
        shards = Shards(run, kind, texts.num_rows, size, made_with=dependencies_of(run, current_environment))
        lease.note(at_once=True, environment=current_environment)
        if missing_shards := shards.list_missing():
            require_ability(run)
            if len(missing_shards) == len(shards.numbers()):
                title = run.protocol.evaluation_set.title
                say(run, f"{what_is_loaded(run.model)} Its outputs on {title} are collected.")
            with give_back_if_unable(Run, name_of_model(run.model)), maker_of(run, texts, lease) as (make, notes):
                lease.note(at_once=True, **notes)
                for number in shards.work_off(lease, lambda bounds, progress: make(_part(texts, bounds), progress)):
                    log.info("%s: shard %d of %d", run, number + 1, len(shards.numbers()))
                    say_how_far(run, number, len(shards.numbers()))
        outputs = shards.whole()
        if count := count_not_finite(outputs):
            shards.remove()
            raise NotFinite(f"{run.model.name} gives no finite likelihood for {count:,} of {outputs.num_rows:,} texts")
        artefact = artefacts.store(outputs, kind)
        counts = run.protocol.outputs.count_answers(outputs)
        with transaction.atomic():
            if counts:
                Run.objects.filter(pk=run.pk).update(chat=Run.objects.get(pk=run.pk).chat | counts)
            lease.finish(artefact=artefact, total=texts.num_rows, done=texts.num_rows)
            for scoring in run.scorings.filter(state=Work.State.QUEUED):
                transaction.on_commit(partial(enqueue, scoring))
        shards.remove()
        log.info("%s: collected in %.0f s", run, run.seconds)
        say(run, f"All {texts.num_rows:,} texts of {run.protocol.evaluation_set.title} are collected.")
    return True


def require_ability(run: Run) -> None:
    """Give the run back, or let it wait, where this host is slow in its precision: nothing else stands in for it."""
    if run.model.source != LanguageModel.Source.SERVER:
        precision = run.output_settings.precision
        with give_back_if_unable(Run, name_of_precision(precision)):
            require_fast_precision(precision)


def count_not_finite(outputs: pa.Table) -> int:
    """Texts whose likelihoods were not finite numbers, or that were not written because of that.

    There must be none: leaving such texts out would let a model choose what it is measured by.
    """
    column = "unscorable" if "unscorable" in outputs.column_names else "error"
    return int(pc.sum(pc.is_in(outputs[column], pa.array([Unscorable.NOT_FINITE.value, NOT_FINITE]))).as_py() or 0)


def what_is_loaded(model: LanguageModel) -> str:
    """The first step of collecting, as a sentence."""
    if model.source == LanguageModel.Source.SERVER:
        return "The model is asked over its server."
    return "The weights are loaded."


def say_how_far(run: Run, number: int, shards: int) -> None:
    """Log each collected tenth, whatever the number of shards; the last has a line of its own."""
    if 10 * number // shards < 10 * (number + 1) // shards < 10:
        say(run, f"{100 * (number + 1) // shards}% of {run.protocol.evaluation_set.title} is collected.")


def _part(texts: pa.Table, bounds: slice) -> pa.Table:
    return texts.slice(bounds.start, bounds.stop - bounds.start)


@contextmanager
def maker_of(run: Run, every_text: pa.Table, lease: Lease) -> Iterator[Begun]:
    """Open the model of `run`, or its server, for as long as outputs are made."""
    open_maker = _ask_server if run.model.source == LanguageModel.Source.SERVER else _open_model
    with open_maker(run, every_text, lease) as maker_and_notes:
        yield maker_and_notes


@contextmanager
def _open_model(run: Run, every_text: pa.Table, lease: Lease) -> Iterator[Begun]:
    outputs = run.protocol.outputs
    options = run.output_settings
    with cages.open_model(run.model, options.precision, lease) as (caged_model, files):

        def make(texts: pa.Table, progress: Progress) -> pa.Table:
            return outputs.collect(caged_model, texts, options, progress)

        notes = note_model(run, options.precision, caged_model, files, every_text) | outputs.notes(caged_model, options)
        check_template(run.model, notes.get("chat", {}))
        yield make, notes


def check_template(model: LanguageModel, chat: dict[str, Any]) -> None:
    """Raise RevisionChanged where the chat template in use is not the one that the entry was made with."""
    template = chat.get("template", model.chat_template)
    if template != model.chat_template:
        raise RevisionChanged(
            f"the chat template of {model.slug} has changed since it was entered: its sha256 was "
            f"{model.chat_template[:12] or 'of none'}, now it is {template[:12]}. Enter the model anew"
        )


def self_test_of(model: LanguageModel, precision: Precision, caged_model: CagedModel) -> dict[str, Any]:
    """The self-test that the model passed here in this precision and with these libraries, or runs now.

    Raises ModelRefused.
    """
    current_environment = environment()
    runs = Run.objects.filter(model=model, self_test__version=VERSION, self_test__precision=precision)
    for run in runs:
        if run.self_test["environment"] == current_environment:
            self_test: dict[str, Any] = run.self_test
            return self_test
    report = caged_model.self_test()
    log.info("%s: self-test passed in %.1f s, largest difference %.1e", model, report.seconds, report.difference)
    return report.as_json() | {"environment": current_environment}


@contextmanager
def _ask_server(run: Run, _every_text: pa.Table, lease: Lease) -> Iterator[Begun]:
    outputs = run.protocol.outputs
    options = run.output_settings
    server, way = server_of(run.model), way_of(run.model)

    def make(texts: pa.Table, progress: Progress) -> pa.Table:
        return outputs.ask_server(server, way, texts, options, progress)

    try:
        with open_session(server) as session:
            session.describe()
        yield (ask_service(run, server, lease) if outputs.is_chat else make), {}
    except ServiceChanged as change:
        successor = open_successor(run.model, change.change, snapshot_of(run.model, change))
        raise ServiceChanged(change.changes, successor.slug) from change


def ask_service(run: Run, server: CompletionsServer, lease: Lease) -> Make:
    """What makes the answers of a chat service: within the spending limit, and by the model that is pinned."""
    outputs = run.protocol.outputs
    options = run.output_settings
    names = {server.model, first_revision(run.model)}
    heard_names = set(run.chat.get("served_models", []))

    def make(texts: pa.Table, progress: Progress) -> pa.Table:
        with set_aside(run, *outputs.most_spent(texts, options)) as allowance:
            service = ChatService(server, names, allowance, settings.CHAT_LIMIT_NAME, heard_names)
            answers: pa.Table = outputs.ask_service(service, texts, options, progress)
        lease.note(at_once=True, chat={"served_models": sorted(heard_names)})
        return answers

    return make


def dependencies_of(run: Run, current_environment: dict[str, str]) -> dict[str, Any]:
    """What the outputs of a run depend on: model, protocol, texts, and the current environment."""
    model, texts = run.model, run.protocol.evaluation_set.artefact
    return {
        "model": [model.source, model.location, model.revision, model.kind, *filter(None, [model.precision])],
        **({"chat_template": model.chat_template} if run.protocol.outputs.is_chat else {}),
        "protocol": run.protocol.sha256,
        "texts": texts.sha256 if texts else "",
        "epoch": run.epoch,
        "environment": current_environment,
    }


def environment_of(model: LanguageModel) -> dict[str, str]:
    """What the outputs of `model` depend on besides model, texts and protocol."""
    if model.source == LanguageModel.Source.SERVER:
        return {"server": urldefrag(model.location).url}
    return environment() | ({"precision": model.precision} if model.precision else {})


def environment() -> dict[str, str]:
    """Versions of the libraries that compute here, and the device."""
    return {"python": platform.python_version(), "device": device_name(), **{name: version(name) for name in LIBRARIES}}


def note_model(
    run: Run, precision: Precision, caged_model: CagedModel, files: Sequence[LoadedFile], texts: pa.Table
) -> dict[str, Any]:
    """The record of a run: the loaded files of its model, its self-test, and the report on its tokenizer.

    The seed of the canary sentences is drawn once a run, and kept with it: nobody knows it before.
    """
    notes: dict[str, Any] = {
        "loaded_files": [asdict(file) for file in files],
        "self_test": self_test_of(run.model, precision, caged_model),
    }
    if not run.tokenizer_report:
        embeddings, seed = caged_model.architecture.vocabulary, secrets.token_hex(16)
        report = report_tokenizer(caged_model.read_texts, embeddings, texts["text"].to_pylist(), groups_of(texts), seed)
        notes["tokenizer_report"] = report.as_json()
    return notes


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
