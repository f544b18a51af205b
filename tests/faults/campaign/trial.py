"""A fault in the middle of a piece of work, and all that must hold after it."""

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from leaderboard.models import Metric, Worker
from leaderboard.people.services.tokens import make_token
from leaderboard.services import scorers
from leaderboard.services.evaluate import request_evaluation
from tests.faults.campaign import invariants
from tests.faults.campaign.board import WORKERS, Board, wait_for
from tests.faults.campaign.injectors import inject
from tests.faults.campaign.phases import (
    PHASES,
    PROMPTS,
    PUBLISHED,
    RESCORED,
    SCORED,
    SENT,
    Phase,
    ask_again,
    share_of,
)
from tests.faults.campaign.reader import Reader
from tests.faults.campaign.receiver import Alerts
from tests.faults.campaign.schedule import KINDS, TOLD_WITHIN, Fault, FaultKind
from tests.leaderboard.conftest import starter_metric
from tests.leaderboard.living import K, entrant, small_metric
from tests.leaderboard.test_accounts import person
from tests.scoring.contributed.files import json_lines
from tests.standin_perspective import StandInPerspective

MOMENT_SECONDS = 120.0  # until the work is so far that the fault comes
RECOVERY_SECONDS = 900.0  # three workers load torch at once, on a machine that is busy with other things
QUIET_SECONDS = 180.0
DOWN_SECONDS = 60.0  # without an answer, after which PlumblineDown tells of the web
PROBE_SECONDS = 5.0
UNTOLD = -1.0
COUNTS = {SCORED: 1, RESCORED: 3, PUBLISHED: 6}  # entries that a board has from its beginning
ENDINGS = "rain\nsea\nnoon\n"


class Trial:
    """A board, the phases of work that it was seen to do undisturbed, and the faults that it then endures."""

    def __init__(self, board: Board, service: StandInPerspective, alerts: Alerts, folder: Path) -> None:
        self.board, self.service, self.alerts, self.folder = board, service, alerts, folder
        self.expected: dict[str, dict[str, Any]] = {}
        self.questions: dict[str, int] = {}  # questions to the service, by phase
        self.began = time.monotonic()
        folder.mkdir()

    # A board

    def build(self, phases: set[str]) -> None:
        """Make the board, start it, and do each of `phases` once, undisturbed: the same is expected ever after."""
        call_command("migrate", verbosity=0)
        starter_metric()
        (self.folder / "lexicon").mkdir()
        (self.folder / "lexicon" / "words.txt").write_text(ENDINGS)
        scorers.import_lexicon("endings", self.folder / "lexicon")
        small_metric(self.folder, SCORED, "perspective")
        small_metric(self.folder, RESCORED, "perspective")
        small_metric(self.folder, PUBLISHED, "lexicon:endings", "lexicon_frequency")
        small_metric(self.folder, SENT, "lexicon:endings", "lexicon_frequency")
        self.write_inputs()
        self.board.start()
        scorings = []
        for slug, count in COUNTS.items():
            metric = Metric.objects.get(slug=slug)
            for number in range(count):
                model = entrant(100 * len(scorings) + number, metric)
                scorings.append(request_evaluation(model, metric))
        wait_for(lambda: all(share_of(scoring) == 1.0 for scoring in scorings), RECOVERY_SECONDS, "the board is filled")
        self.reader = Reader(self.board, (RESCORED, PUBLISHED))
        self.reader.start()
        for number, name in enumerate(sorted(phases)):
            count = len(self.service.requests)
            phase = self.begin(name, -1 - number)
            self.finish(phase)
            self.expected[name] = phase.outcome()
            self.questions[name] = len(self.service.requests) - count

    def write_inputs(self) -> None:
        """The files that people send and import, and who sends them."""
        sender = person("sender")
        (self.folder / "token").write_text(make_token(sender, "campaign")[1])
        rows = [
            {
                "prompt_id": f"{number:04}.txt:{10 * number}-{10 * number + 9}",
                "index": index,
                "text": f" by the sea {index}",
            }
            for number in range(10)
            for index in range(K)
        ]
        (self.folder / "outputs.jsonl").write_bytes(json_lines(rows))
        prompts = [{"prompt": f"On page {number} of the book the", "group": "books"} for number in range(PROMPTS)]
        (self.folder / "prompts.jsonl").write_bytes(json_lines(prompts))
        address = self.board.database.address_of("released-{number}")
        (self.folder / "released").write_text(address)

    # One fault

    def begin(self, name: str, number: int) -> Phase:
        """The work of a phase, begun."""
        phase = PHASES[name](self.board, self.service, number, self.folder)
        ask_again(phase.begin)
        return phase

    def finish(self, phase: Phase) -> float:
        """Wait until the work is done; returns the seconds that it took."""
        seconds = wait_for(lambda: ask_again(phase.is_done), RECOVERY_SECONDS, f"{type(phase).__name__} is done")
        return seconds

    def repeat_undisturbed(self, fault: Fault) -> dict[str, Any]:
        """The work that the fault would meet, without it."""
        phase = self.begin(fault.phase, fault.index)
        self.finish(phase)
        violations = invariants.find_differences(phase.outcome(), self.expected[fault.phase])
        return {"index": fault.index, "phase": fault.phase, "kind": "none", "violations": violations}

    def endure(self, fault: Fault) -> dict[str, Any]:
        """Let the fault happen, and say what came of it. `violations`: sentences; empty where all held."""
        kind = KINDS[fault.kind]
        count = len(self.service.requests)
        phase = self.begin(fault.phase, fault.index)
        moment = fault.moment * phase.latest
        wait_for(lambda: ask_again(phase.progress) >= moment, MOMENT_SECONDS, "the work is so far that the fault comes")
        in_time = not ask_again(phase.is_done)
        began = time.monotonic()
        with inject(fault.kind, self.board, phase):
            delay = self.wait_for_alert(kind, phase, began) if kind.lasts else None
            while not kind.lasts and time.monotonic() - began < fault.seconds and kind_lasts_a_while(fault.kind):
                if fault.kind != "database stopped":  # whoever asks it waits until it goes on
                    self.try_again(phase)
                time.sleep(0.1)
        ended, over_at = time.monotonic(), timezone.now()
        self.finish(phase)
        wait_for(self.board.is_ready, RECOVERY_SECONDS, "all processes run and are ready")
        if fault.kind.startswith("kill") and "worker" in fault.kind:
            words = "all workers give a sign of life"
            wait_for(lambda: ask_again(lambda: self.are_workers_alive(over_at)), RECOVERY_SECONDS, words)
        recovered = time.monotonic()
        quiet = self.wait_for_quiet()
        asked_again = len(self.service.requests) - count - self.questions[fault.phase]
        violations = [
            *([f"nobody was told of it within {TOLD_WITHIN:.0f} s"] if delay == UNTOLD else []),
            *invariants.find_differences(ask_again(phase.outcome), self.expected[fault.phase]),
            *ask_again(self.find_violations),
            *invariants.find_repeated_questions(asked_again),
            *self.reader.find_mixtures(),
            *quiet,
        ]
        return {
            "index": fault.index,
            "phase": fault.phase,
            "kind": fault.kind,
            "in_time": in_time,
            "lasted": ended - began,
            "told": delay,
            "recovered": recovered - ended,
            "quiet": time.monotonic() - ended,
            "asked_again": asked_again,
            "statuses": dict(self.reader.statuses),
            "heard": sorted({incident["kind"] for _, event, incident in self.alerts.since(began) if event == "opened"}),
            "violations": violations,
        }

    def are_workers_alive(self, moment: datetime) -> bool:
        """Whether each of the three gave a sign of life after that moment."""
        return Worker.objects.filter(beat_at__gt=moment).count() == len(WORKERS)

    def try_again(self, phase: Phase) -> None:
        """What a person would do meanwhile: send a file again, or give a command again."""
        try:
            phase.is_done()
        except (DatabaseError, InterfaceError):
            connection.close()
            time.sleep(0.2)

    def wait_for_alert(self, kind: FaultKind, phase: Phase, began: float) -> float:
        """Seconds from the fault until somebody is told of it; UNTOLD where nobody is in time."""
        answered = began
        probed = 0.0
        while (now := time.monotonic()) - began < TOLD_WITHIN:
            if kind.alerts == ("down",):
                if now - probed > PROBE_SECONDS:
                    probed = now
                    if self.board.is_answering(seconds=PROBE_SECONDS):
                        answered = time.monotonic()
                if now - answered >= DOWN_SECONDS:
                    return now - began
            elif (moment := self.alerts.first_told(kind.alerts, began)) is not None:
                return moment - began
            if kind.alerts not in (("database",), ("down",)):
                self.try_again(phase)
            time.sleep(0.2)
        return UNTOLD

    def wait_for_quiet(self) -> list[str]:
        """Wait until all incidents are over and everybody heard it; what is not, after a while."""
        deadline = time.monotonic() + QUIET_SECONDS
        while True:
            noise = ask_again(invariants.find_open_incidents) + self.alerts.untold_ends(self.began)
            if not noise or time.monotonic() > deadline:
                return noise
            time.sleep(0.5)

    def find_violations(self) -> list[str]:
        """What does not hold in the database."""
        return [*invariants.find_lost_work(), *invariants.find_doubles(), *invariants.find_halves()]

    # The end

    def is_usable(self) -> bool:
        """Whether the next fault can come: the board recovers."""
        try:
            wait_for(self.board.is_ready, RECOVERY_SECONDS, "the board is ready")
        except AssertionError:
            return False
        return True

    def conclude(self) -> list[str]:
        """What does not hold at the end: numbers that do not follow from files, files of work that is over, noise."""
        self.reader.stop()
        try:
            wait_for(invariants.is_idle, RECOVERY_SECONDS, "no work is under way")  # report cards come by themselves
        except AssertionError as error:
            return [str(error)]
        verified = self.board.manage("verify")
        return [
            *([f"`manage.py verify` ended with {verified.returncode}"] if verified.wait() else []),
            *self.wait_for_quiet(),  # a look just after the last fault may still tell of it
            *invariants.find_leftovers(),
        ]

    def describe(self) -> dict[str, str]:
        """All that the board holds, by hashes."""
        return invariants.describe_board()


def kind_lasts_a_while(kind: str) -> bool:
    """Whether a short fault has a duration: what is killed, or ended, is so at once."""
    return not kind.startswith(("kill", "end", "crash"))
