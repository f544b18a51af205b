"""A small board whose scorer the tests can change, and workers that do in this process whatever is to be done."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from django.core.files.storage import default_storage
from django.db.models import F, QuerySet
from scipy import special

from leaderboard import tasks
from leaderboard.models import (
    Artefact,
    ControlCheck,
    Download,
    LanguageModel,
    Metric,
    MetricVersion,
    Opening,
    Rescoring,
    Run,
    Scoring,
    Work,
)
from leaderboard.models.clock import from_now
from leaderboard.services import artefacts, rescore, scorers
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.evaluation_sets import import_own_prompts
from leaderboard.services.metrics import Declaration, declare_metric
from scoring.artefacts import SCHEMAS
from scoring.scorers import Scorer, ScorerUnavailable, Scores, registry
from scoring.scorers.base import Progress
from scoring.scorers.registry import ScorerDeclaration
from tests.declared import harms
from tests.leaderboard.continuations import records, written

NAME = "standin"
SLUG = "toxicity-standin"
K = 2
ENDINGS = ["and left.", "by the sea.", "in the rain.", "at noon.", "on foot.", "with a smile.", "for a while."]


class Killed(BaseException):
    """What a worker that is killed leaves behind: a lease, which nobody gives back."""


@dataclass
class Stage:
    """How the scorer is now: its logits are shifted, by itself or by what its `fingerprint` gives away."""

    fingerprint: str = "first"
    shift: float = 0.0
    shifted: set[str] = field(default_factory=set)  # the only texts that are shifted, where it names some
    attributes: tuple[str, ...] = ("toxicity", "insult")
    down: bool = False
    refused: set[str] = field(default_factory=set)  # texts without a score
    noise: Callable[[np.ndarray], np.ndarray] | None = None  # what a scoring adds to the logits
    wobble: int = 0  # so many scorings from now on are shifted by 1, and then no more
    kill_after: int | None = None  # scorings until the worker is killed
    asked: list[int] = field(default_factory=list)  # texts, by scoring


def probability(text: str, attribute: str, shift: float = 0.0) -> float:
    """The score that the stand-in gives: its logit is a number from -3 to 3 that the text fixes, and the shift."""
    digits = int(hashlib.sha256(f"{attribute} {text}".encode()).hexdigest()[:8], 16)
    return float(1 / (1 + np.exp(-(6 * digits / 0xFFFFFFFF - 3 + shift))))


class StandIn(Scorer):
    """A scorer as any other, quick and deterministic, but for what the stage says."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.attributes = tuple(harms(stage.attributes))
        self.loaded = stage.fingerprint, stage.shift  # as weights are: from when it was loaded on

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.loaded} {self.attribute_names}".encode()).hexdigest()

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        stage = self.stage
        if stage.kill_after is not None:
            if not stage.kill_after:
                stage.kill_after = None
                raise Killed
            stage.kill_after -= 1
        if stage.down:
            raise ScorerUnavailable("the stand-in is down: wait for it")
        stage.asked.append(len(texts))
        shift = self.loaded[1] + (stage.wobble > 0)
        stage.wobble = max(0, stage.wobble - 1)
        shifts = [shift if not stage.shifted or text in stage.shifted else 0.0 for text in texts]
        values = np.array(
            [
                [probability(text, name, by) for name in self.attribute_names]
                for text, by in zip(texts, shifts, strict=True)
            ]
        )
        if stage.noise is not None:
            values = special.expit(special.logit(values) + stage.noise(values))
        refused = np.array([text in stage.refused for text in texts])
        values[refused] = np.nan
        progress(len(texts))
        reasons = tuple("refused" if gone else None for gone in refused)
        return Scores(values.astype(np.float32), reasons, np.zeros(len(texts), bool))


@contextmanager
def standing_in() -> Iterator[Stage]:
    """Register the stand-in among the scorers for the block."""
    stage, before = Stage(), registry.SCORERS
    registry.SCORERS = (*before, ScorerDeclaration(NAME, "Stand-in", False, lambda _choice: StandIn(stage)))
    scorers.look_again()
    try:
        yield stage
    finally:
        registry.SCORERS = before
        scorers.look_again()


def small_metric(
    folder: Any,
    slug: str = SLUG,
    scorer: str = NAME,
    formula: str = "toxicity",
    labels: dict[str, str] | None = None,
    copies: int = 1,
) -> Metric:
    """A metric of two continuations of each of ten prompts, or of so many times ten, which are numbered."""
    rows = records()
    for copy in range(1, copies):
        for row in records():
            prompt = row["prompt"] | {"text": f"{row['prompt']['text']} {copy}"}
            rows.append(row | {"filename": f"{copy}-{row['filename']}", "prompt": prompt})
    prompts = import_own_prompts("ten-prompts", "Ten prompts", "CC0", written(folder / "ten.jsonl", rows))[0]
    return declare_metric(Declaration(slug, slug, scorer, formula, "rtp", {"k": K}, labels=labels or {}), prompts)


def entrant(number: int, metric: Metric) -> LanguageModel:
    """A model whose continuations are collected already."""
    model = LanguageModel.objects.create(
        slug=f"entrant-{number}",
        name=f"Entrant {number}",
        kind=LanguageModel.Kind.CAUSAL,
        source=LanguageModel.Source.LOCAL,
        location=f"/models/entrant-{number}",
        revision="sha256:" + hashlib.sha256(str(number).encode()).hexdigest(),
    )
    ids = artefacts.load(metric.protocol.evaluation_set.artefact)["id"].to_pylist()
    k = metric.protocol.k
    generator = np.random.default_rng(number)
    rows = [
        {
            "prompt_id": id_,
            "index": index,
            "text": f" {' '.join(generator.choice(ENDINGS, 3))}",
            "n_tokens": 3,
            "finish": "length",
            "truncated": False,
        }
        for id_ in ids
        for index in range(k)
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMAS["continuations"])
    Run.objects.create(
        model=model, protocol=metric.protocol, state=Work.State.DONE, artefact=artefacts.store(table, "continuations")
    )
    return model


def drift(stage: Stage, shift: float = 0.4, fingerprint: str = "second") -> None:
    """Put other weights in place of the scorer's; workers that have loaded the old ones keep them."""
    stage.shift, stage.fingerprint = shift, fingerprint


@contextmanager
def lost(artefact: Artefact) -> Iterator[None]:
    """Without the file of the artefact, for the block."""
    path = Path(default_storage.path(artefact.storage_name))
    aside = path.rename(path.with_suffix(".aside"))
    try:
        yield
    finally:
        aside.rename(path)


@contextmanager
def malformed(*entries: Artefact) -> Iterator[None]:
    """With entries whose outputs break their format, for the block: a failure of theirs, which no waiting mends."""
    load, hashes = artefacts.load, {artefact.sha256 for artefact in entries}

    def load_or_fail(artefact: Artefact | None) -> pa.Table:
        if artefact is not None and artefact.sha256 in hashes:
            raise ValueError("the outputs break their format")
        return load(artefact)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artefacts, "load", load_or_fail)
        yield


def waiting() -> list[Work]:
    """What workers would find to do now, in the order of the sweeper."""
    found: list[QuerySet[Any]] = [
        ControlCheck.objects.unclaimed().order_by("pk"),
        Scoring.objects.unclaimed().filter(run__state=Work.State.DONE).order_by("pk"),
        Download.objects.unclaimed().order_by("pk"),
        Run.objects.unclaimed().filter(Run.kind.ready).order_by("pk"),
    ]
    return [work for rows in found for work in rows]


TASKS = {
    ControlCheck: tasks.check_control,
    Scoring: tasks.score_one,
    Download: tasks.fetch_model,
    Run: tasks.collect_one,
}


def fetch_files(run: Run) -> None:
    """Bring the files of a hub model, as the worker for downloads does."""
    download, _ = Download.objects.get_or_create(model=run.model)
    tasks.fetch_model(download.pk)
    run.refresh_from_db()


def deliver(work: Work) -> None:
    """Do this work, as a worker does whose turn comes to it."""
    TASKS[type(work)](work.pk)
    tasks.conclude()


def retry() -> None:
    """Let the pauses before the next attempts be over."""
    for kind in (*TASKS, Opening):
        kind.objects.filter(not_before__isnull=False).update(not_before=None)


def hurry() -> None:
    """As `retry`, and let it be half a day since the checks without an answer."""
    retry()
    unanswered = ControlCheck.objects.filter(verdict__in=["", ControlCheck.Verdict.UNAVAILABLE])
    unanswered.filter(finished_at__isnull=False).update(finished_at=F("finished_at") - timedelta(hours=12))


def expire() -> None:
    """Let the leases of workers that were killed run out."""
    for kind in TASKS:
        kind.objects.filter(lease__isnull=False).update(lease_expires_at=from_now(-1))


def drain(most: int = 100) -> None:
    """Work until there is nothing left to do, pauses passed over; fail where that does not come to an end."""
    for _ in range(most):
        hurry()
        if not (todo := waiting()):
            rescore.advance_all()
            if not waiting():
                return
            continue
        deliver(todo[0])
    raise AssertionError(f"after {most} tasks there is still something to do: {waiting()}")


def submit(model: LanguageModel, metric: Metric) -> Scoring:
    """Ask for the model's evaluation, and work until it is over."""
    scoring = request_evaluation(model, metric, send=False)
    drain()
    scoring.refresh_from_db()
    return scoring


def active(metric: Metric) -> Rescoring | None:
    """The rescoring under way."""
    return Rescoring.objects.active().filter(metric=metric).first()


def standings_of(version: MetricVersion) -> list[tuple[Any, ...]]:
    """Whatever readers see of a version."""
    rows = version.standings.order_by("measure", "slice", "population", "model__slug")
    return list(
        rows.values_list(
            "measure", "slice", "population", "model__slug", "rank", "rank_low", "rank_high", "value", "result_id"
        )
    )


def numbers_of(version: MetricVersion) -> list[tuple[Any, ...]]:
    """Standings without the identity of rows, to compare boards by."""
    return [row[:-1] for row in standings_of(version)]


def names_of(version: MetricVersion) -> set[str]:
    """The models that are ranked under a version."""
    return set(version.standings.values_list("model__slug", flat=True))


def shifts_in(version: MetricVersion) -> set[float]:
    """By how much the scores under a version were shifted: of one scorer there is one."""
    done = version.scorings.filter(state=Work.State.DONE)
    return {_shift(*of) for of in done.values_list("run__artefact__sha256", "artefact__sha256")}


@lru_cache
def _shift(outputs: str, scores: str) -> float:
    texts, values = (artefacts.load(Artefact.objects.get(sha256=sha256)) for sha256 in (outputs, scores))
    bare = [probability(text, "toxicity") for text in texts["text"].to_pylist()]
    pairs = zip(values["score:toxicity"].to_pylist(), bare, strict=True)
    return round(float(np.median([np.log(s / (1 - s)) - np.log(b / (1 - b)) for s, b in pairs])), 2) + 0.0
