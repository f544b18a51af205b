"""People who send outputs, files that they send, and workers that read them in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile

from leaderboard import tasks
from leaderboard.models import Artefact, LanguageModel, Metric, Reading, Run, Scoring, Submission
from leaderboard.services import artefacts
from leaderboard.submissions.intake import submit
from tests.leaderboard import living
from tests.leaderboard.test_accounts import person

LIKELIHOODS, CONTINUATIONS = ("id", "token_log_likelihoods", "unscorable"), ("prompt_id", "index", "text", "error")


def said(**changes: Any) -> dict[str, Any]:
    """What somebody fills in."""
    return {"name": "Closed 1", "revision": "2026-11-01", "kind": "causal", **changes}


def uploaded(content: bytes, name: str = "outputs.jsonl") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def send(
    metrics: list[str], content: bytes, file: str = "outputs.jsonl", form: str = "outputs", **changes: Any
) -> Submission:
    """Submit a file as ada, who is made where she is not there."""
    user = changes.pop("user", None) or User.objects.filter(username="ada").first() or person()
    return submit(user, form, said(metrics=metrics, **changes), uploaded(content, file))[0]


def read_all() -> None:
    """What the workers would do with the files that wait."""
    for reading in Reading.objects.unclaimed().order_by("pk"):
        tasks.read_submission(reading.pk)


def rank(submission: Submission) -> Submission:
    """Read its file and do all the work that comes of it."""
    read_all()
    living.drain()
    submission.refresh_from_db()
    return submission


def rows_of(artefact: Artefact, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """An artefact's rows as somebody would write them, without what is null."""
    rows = artefacts.load(artefact).select(names).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def numbers(model: LanguageModel, metric: Metric) -> list[tuple[Any, ...]]:
    """All that is published of a model under a metric."""
    results = Scoring.objects.get(model=model, metric_version__metric=metric, state="done").results
    fields = ("measure", "slice", "value", "ci_low", "ci_high", "n", "missing", "p_value", "p_adjusted")
    return list(results.order_by("measure", "slice").values_list(*fields))


def stored() -> set[Path]:
    """All files that are stored."""
    return {path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()}


def everything() -> tuple[Any, ...]:
    """What a submission must leave as it was where it is refused."""
    return (*(kind.objects.count() for kind in (LanguageModel, Run, Scoring, Artefact, Metric)), stored())


@contextmanager
def nothing_is_left() -> Iterator[None]:
    """Of what happens in the block nothing is left but submissions."""
    before = everything()
    yield
    assert everything() == before


def refused(submission: Submission) -> Submission:
    """The submission, read and refused."""
    read_all()
    submission.refresh_from_db()
    assert submission.state == Submission.State.REFUSED, submission.reason or submission.state
    assert submission.reason
    assert not submission.upload
    assert submission.model is None
    assert submission.ended_at
    return submission


@pytest.fixture
def stage() -> Iterator[living.Stage]:
    with living.standing_in() as stage:
        yield stage


@pytest.fixture
def prompts(stage: living.Stage, tmp_path: Path, db: None) -> Metric:
    """A metric of two continuations of each of ten prompts, by the stand-in."""
    return living.small_metric(tmp_path)
