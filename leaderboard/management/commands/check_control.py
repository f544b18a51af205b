from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.management.waiting import wait_for_worker
from leaderboard.models import ControlCheck, Work
from leaderboard.services.checks import perform, request_check


class Command(BoardCommand):
    help = "Score a metric's control set again right now, and say whether its scorer can be trusted."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", help="slug of the metric, as in toxicity-profanity")

    def handle(self, metric: str, **options: Any) -> None:
        check = request_check(metric_called(metric), ControlCheck.Trigger.MANUAL, send=False)
        perform(check)
        wait_for_worker(check)
        if check.state != Work.State.DONE:
            raise CommandError(f"{check}: {check.reason}")
        opened_versions = list(check.opened_versions.all())
        self.say(f"{check.metric}: {check.verdict}. {check.statistics['decided_by']}")
        detectable = check.statistics.get("detectable_in_words", "")
        if detectable:
            self.say(detectable)
        for version in opened_versions:
            self.say(f"opened {version}, and queued its entries: the workers rescore them")
        self.answer(
            {
                "metric": check.metric.slug,
                "check": check.pk,
                "verdict": check.verdict,
                "decided_by": check.statistics["decided_by"],
                "detectable": check.statistics.get("detectable", []),
                "opened": [version.number for version in opened_versions],
            }
        )
        if check.verdict == ControlCheck.Verdict.UNAVAILABLE:
            raise CommandError("nothing is published under this scorer until a check has an answer")
