from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import model_called
from leaderboard.management.output import BoardCommand
from leaderboard.management.waiting import wait_for_worker
from leaderboard.models import LanguageModel, ServiceCheck, Work
from leaderboard.services.service_checks import perform, request_service_check, watched_models


class Command(BoardCommand):
    help = "Ask the services that are ranked their control texts right now, and say whether they answer as before."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("models", nargs="*", help="slugs of served models (default: all of them)")

    def handle(self, models: list[str], **options: Any) -> None:
        rows = [model_called(slug) for slug in models] if models else watched_models()
        if not rows:
            self.say("no served model is on this board")
        checks = [self.ask_again(model) for model in rows]
        self.answer({"checks": [self.describe(check) for check in checks]})
        open_checks = [check for check in checks if check.state != Work.State.DONE]
        if open_checks:
            raise CommandError("; ".join(f"{check}: {check.reason}" for check in open_checks))

    def ask_again(self, model: LanguageModel) -> ServiceCheck:
        """Check one service and say what came of it."""
        check = request_service_check(model, ServiceCheck.Trigger.MANUAL, send=False)
        perform(check)
        wait_for_worker(check)
        self.say(f"{model.slug}: {check.verdict or check.state}. {check.statistics.get('decided_by', check.reason)}")
        if successor := check.statistics.get("successor"):
            self.say(
                f"{model.slug} is no longer reproducible; the service goes on as {successor}: "
                f"`manage.py evaluate {successor} --metric METRIC` measures it"
            )
        return check

    def describe(self, check: ServiceCheck) -> dict[str, Any]:
        """A check as --json prints it."""
        return {"model": check.model.slug, "verdict": check.verdict, "state": check.state, **check.statistics}
