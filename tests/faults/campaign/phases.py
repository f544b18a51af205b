"""Work of each phase, which can be brought about again and again and always comes to the same files and numbers.

Imported after Django was set up: it works on the board's database, as an operator's shell does.
"""

import hashlib
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
from django.db import DatabaseError, InterfaceError, connection

from leaderboard.models import (
    ControlCheck,
    EvaluationSet,
    LanguageModel,
    Metric,
    Rescoring,
    Run,
    Scoring,
    Submission,
    Work,
)
from leaderboard.services.checks import request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.failures import failure_of
from leaderboard.services.folders import name_of_model, store_folder
from leaderboard.services.rescore import open_rescoring
from scoring.language_models.revisions import folder_revision
from tests.faults.campaign.board import Board
from tests.faults.campaign.releases import describe_database, restore_release
from tests.faults.hostile_models import HONEST
from tests.standin_perspective import StandInPerspective

COLLECTED, SCORED, RESCORED, PUBLISHED, SENT = "safety-starter", "scored", "rescored", "published", "sent"  # metrics
CLIENT_SECONDS = 20.0  # that somebody who sends a file waits for the answer
PAUSE_SECONDS = 1.0  # until a client, or an operator whose command failed, tries again
COMMAND_SECONDS = (1.5, 4.0)  # in which a command does its work, after it has started
PROMPTS = 4000  # that are imported


T = TypeVar("T")


def ask_again(ask: Callable[[], T]) -> T:
    """What `ask` returns, asked again while the database is away."""
    while True:
        try:
            return ask()
        except (DatabaseError, InterfaceError) as error:
            if not failure_of(error).of_board:
                raise
            connection.close()
            time.sleep(0.2)


def hash_of(value: object) -> str:
    """A hash of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


class Phase:
    """One piece of work. `worker`: the process that does it; "" where none does."""

    worker = ""
    latest = 0.9  # the progress by which a fault has come

    def __init__(self, board: Board, service: StandInPerspective, number: int, folder: Path) -> None:
        self.board, self.service, self.number, self.folder = board, service, number, folder

    def begin(self) -> None:
        """Bring the work about."""
        raise NotImplementedError

    def progress(self) -> float:
        """The share of the work that is done, from 0 to 1."""
        raise NotImplementedError

    def is_done(self) -> bool:
        """Whether all of it is done. Tries again what a person would."""
        return self.progress() >= 1.0

    def outcome(self) -> dict[str, Any]:
        """What came of it: hashes of files, numbers and ranks, which are the same each time."""
        raise NotImplementedError


def describe_scoring(scoring: Scoring) -> dict[str, Any]:
    """Files and numbers of an entry."""
    fields = ("measure", "slice", "value", "ci_low", "ci_high", "n", "missing", "p_value", "p_adjusted")
    files = (scoring.run and scoring.run.artefact, scoring.artefact, scoring.replicates)
    return {
        "files": [artefact and artefact.sha256 for artefact in files],
        "results": hash_of(list(scoring.results.order_by("measure", "slice").values_list(*fields))),
    }


def share_of(scoring: Scoring) -> float:
    """How much of an entry is collected and scored."""
    scoring = Scoring.objects.select_related("run").get(pk=scoring.pk)
    if scoring.state == Work.State.DONE:
        return 1.0
    run = scoring.run
    works: list[Work] = [scoring] if run is None or run.state == Work.State.DONE else [run]
    return min(0.99, max(work.done / work.total if work.total else 0.0 for work in works))


class Entry(Phase):
    """A new entry of a metric."""

    metric = ""
    scoring: Scoring

    def begin(self) -> None:
        metric = Metric.objects.get(slug=self.metric)
        self.scoring = request_evaluation(self.enter(metric), metric)

    def enter(self, metric: Metric) -> LanguageModel:
        """A model that is new to the board."""
        raise NotImplementedError

    def progress(self) -> float:
        return share_of(self.scoring)

    def outcome(self) -> dict[str, Any]:
        scoring = Scoring.objects.select_related("run__artefact", "artefact", "replicates").get(pk=self.scoring.pk)
        count = scoring.metric_version.standings.filter(model=scoring.model).count()
        return describe_scoring(scoring) | {"ranks": count}


class Collecting(Entry):
    """A small model reads all texts of a set."""

    metric, worker = COLLECTED, "gpu-worker"

    def enter(self, metric: Metric) -> LanguageModel:
        folder = self.folder / f"model-{self.number}"
        shutil.copytree(HONEST, folder)
        (folder / "number.txt").write_text(f"{self.number}\n")  # another revision of the same weights
        twin = LanguageModel.objects.filter(source=LanguageModel.Source.LOCAL, location__startswith=self.folder).first()
        model = self.enter_twin(twin, folder) if twin else self.enter_first(folder)
        shutil.rmtree(folder)  # the board has its own copy
        return model

    def enter_first(self, folder: Path) -> LanguageModel:
        """Enter a model as operators do: its files are looked into, in a cage."""
        assert self.board.manage("add_model", str(folder)).wait() == 0
        return LanguageModel.objects.get(location=str(folder))

    def enter_twin(self, twin: LanguageModel, folder: Path) -> LanguageModel:
        """Enter another revision without a look into it: a cage would keep as much memory as a worker."""
        values = {field.attname: getattr(twin, field.attname) for field in LanguageModel._meta.concrete_fields}
        values |= {"id": None, "slug": folder.name, "name": folder.name, "location": str(folder)}
        model = LanguageModel.objects.create(**values | {"revision": folder_revision(folder)})
        store_folder(name_of_model(model), folder)
        return model


class ScoringOutputs(Entry):
    """The service scores what a model wrote."""

    metric, worker = SCORED, "worker"

    def enter(self, metric: Metric) -> LanguageModel:
        first_run = Run.objects.filter(protocol=metric.protocol).earliest("pk")
        slug = f"same-{self.number}"
        model = LanguageModel.objects.create(
            slug=slug, name=slug, kind=first_run.model.kind, source=first_run.model.source, revision=slug, location=slug
        )
        Run.objects.create(model=model, protocol=metric.protocol, state=Work.State.DONE, artefact=first_run.artefact)
        return model


class Check(Phase):
    """The service scores the control set again."""

    worker = "worker"
    check: ControlCheck

    def begin(self) -> None:
        self.check = request_check(Metric.objects.get(slug=RESCORED), ControlCheck.Trigger.MANUAL)

    def progress(self) -> float:
        check = ControlCheck.objects.get(pk=self.check.pk)
        if check.state == Work.State.DONE:
            return 1.0
        return min(0.99, check.done / check.total if check.total else 0.0)

    def outcome(self) -> dict[str, Any]:
        check = ControlCheck.objects.select_related("artefact").get(pk=self.check.pk)
        return {"verdict": check.verdict, "file": check.artefact and check.artefact.sha256}


class RescoringAll(Phase):
    """All entries of a metric are scored again under a new version, which is published once it is whole."""

    metric, worker = RESCORED, "worker"
    rescoring: Rescoring

    def begin(self) -> None:
        self.rescoring = open_rescoring(Metric.objects.get(slug=self.metric), "to be sure")

    def progress(self) -> float:
        rescoring = Rescoring.objects.get(pk=self.rescoring.pk)
        if rescoring.state == Rescoring.State.PUBLISHED:
            return 1.0
        done = rescoring.to_version.scorings.filter(state=Work.State.DONE).count()
        return min(0.99, done / max(1, rescoring.to_version.scorings.count()))

    def outcome(self) -> dict[str, Any]:
        version = Rescoring.objects.get(pk=self.rescoring.pk).to_version
        scorings = version.scorings.select_related("model", "run__artefact", "artefact", "replicates")
        fields = ("measure", "slice", "population", "model__slug", "rank", "rank_low", "rank_high", "value")
        return {
            "entries": {scoring.model.slug: describe_scoring(scoring) for scoring in scorings},
            "ranks": hash_of(list(version.standings.order_by(*fields[:4]).values_list(*fields))),
            "left out": list(version.outdated.values_list("model__slug", "reason")),
        }


class Publication(RescoringAll):
    """As rescoring, by a lexicon that takes no time: what is left is to publish."""

    metric = PUBLISHED

    def progress(self) -> float:
        share = super().progress()
        return share if share == 1.0 else max(0.0, share - 0.7) / 0.3  # the fault comes near its end


class Upload(Phase):
    """Somebody sends outputs, and again until the board has taken them; then they are read, scored and ranked."""

    worker = "files-worker"
    latest = 0.45

    def begin(self) -> None:
        self.submission = 0
        self.tried_at = 0.0
        token = (self.folder / "token").read_text()
        self.headers = {"Authorization": f"Bearer {token}"}
        rows = (self.folder / "outputs.jsonl").read_bytes()
        self.files = {"file": ("outputs.jsonl", rows)}
        self.values = {"form": "outputs", "name": f"Closed {self.number}", "revision": f"r{self.number}"}
        self.values |= {"kind": "causal", "metrics": SENT}
        self.send()

    def send(self) -> None:
        """Send the file, unless the board has it already: the answer may have been lost."""
        self.tried_at = time.monotonic()
        address = f"{self.board.address}/api/v1/submissions"
        with suppress(httpx.HTTPError, ValueError, KeyError):
            own = httpx.get(f"{address}?limit=200", headers=self.headers, timeout=CLIENT_SECONDS).json()["items"]
            earlier = [row["id"] for row in own if row["name"] == self.values["name"]]
            if earlier:
                self.submission = earlier[0]
                return
            answer = httpx.post(
                address, headers=self.headers, data=self.values, files=self.files, timeout=CLIENT_SECONDS
            )
            if answer.status_code < 500 and answer.status_code != 201:
                raise AssertionError(f"the upload was refused: {answer.status_code} {answer.text[:500]}")
            self.submission = answer.json()["id"]

    def progress(self) -> float:
        if not self.submission:
            return 0.0
        submission = Submission.objects.get(pk=self.submission)
        if submission.state == Submission.State.RANKED:
            return 1.0
        return 0.5 if submission.model_id else 0.2

    def is_done(self) -> bool:
        if not self.submission and time.monotonic() - self.tried_at > PAUSE_SECONDS:
            self.send()
        return super().is_done()

    def outcome(self) -> dict[str, Any]:
        submission = Submission.objects.get(pk=self.submission)
        scoring = Scoring.objects.select_related("run__artefact", "artefact", "replicates").get(model=submission.model)
        return describe_scoring(scoring) | {"sent": Submission.objects.filter(name_asked=self.values["name"]).count()}


class Command(Phase):
    """An operator's command, given again where it failed. A command that fails says so to who gave it."""

    process: "subprocess.Popen[bytes]"

    def begin(self) -> None:
        self.failures = 0
        self.failed_at = 0.0
        self.begin_command()

    def begin_command(self) -> None:
        self.began = time.monotonic()
        self.process = self.run()

    def run(self) -> "subprocess.Popen[bytes]":
        """Start the command."""
        raise NotImplementedError

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)

    def progress(self) -> float:
        code = self.process.poll()
        if code == 0:
            return 1.0
        first, last = COMMAND_SECONDS
        return min(0.99, max(0.0, (time.monotonic() - self.began - first) / (last - first)))

    def is_done(self) -> bool:
        if self.process.poll():
            if not self.failed_at:
                self.failed_at = time.monotonic()
                self.failures += 1
            elif time.monotonic() - self.failed_at > PAUSE_SECONDS:
                self.failed_at = 0.0
                self.begin_command()
            return False
        return self.process.poll() == 0


class Import(Command):
    """Prompts of one's own are imported."""

    def run(self) -> "subprocess.Popen[bytes]":
        arguments = ("--prompts", "--licence", "CC0", "--title", "Imported prompts")
        path = str(self.folder / "prompts.jsonl")
        return self.board.manage("import_evaluation_set", f"imported-{self.number}", path, *arguments)

    def outcome(self) -> dict[str, Any]:
        rows = EvaluationSet.objects.filter(slug=f"imported-{self.number}").select_related("artefact")
        return {"sets": [(row.version, row.artefact and row.artefact.sha256, row.counts) for row in rows]}


class Migration(Command):
    """A board of an earlier release is migrated, on the same server and disk."""

    def begin(self) -> None:
        self.address = (self.folder / "released").read_text().format(number=self.number)
        restore_release(self.address)
        super().begin()

    def run(self) -> "subprocess.Popen[bytes]":
        var = self.board.disk.var / "released"
        return self.board.manage("migrate", "--verbosity", "0", DATABASE_URL=self.address, PLUMBLINE_VAR=str(var))

    def outcome(self) -> dict[str, Any]:
        return describe_database(self.address)


PHASES: dict[str, type[Phase]] = {
    "collecting": Collecting,
    "scoring": ScoringOutputs,
    "check": Check,
    "rescoring": RescoringAll,
    "publication": Publication,
    "upload": Upload,
    "import": Import,
    "migration": Migration,
}
