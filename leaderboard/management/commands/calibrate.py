from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.models import Calibration, Work
from leaderboard.services.calibrations import labelled_sets, perform, request_calibration
from leaderboard.services.versions import newest_version


class Command(BoardCommand):
    help = "Score labelled texts with a metric's scorer right now, and say how right it is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", help="slug of the metric, as in toxicity-profanity")
        parser.add_argument("--set", default="", metavar="SLUG", help="the labelled set (default: all of this board)")

    def handle(self, metric: str, **options: Any) -> None:
        version = newest_version(metric_called(metric))
        if version is None:
            raise CommandError(f"{metric} has no version yet: it gets one with its first evaluation")
        sets = {row.slug: row for row in labelled_sets()}
        slug = options["set"]
        if slug and slug not in sets:
            raise CommandError(
                f"--set {slug}: there are no such labelled texts here; known: {', '.join(sets) or 'none'}"
            )
        chosen_sets = [sets[slug]] if slug else list(sets.values())
        calibrations = [self.calibrate(request_calibration(version, row, send=False)) for row in chosen_sets]
        self.answer(
            {"metric": metric, "version": version.number, "scorer": version.scorer, "calibrations": calibrations}
        )

    def calibrate(self, calibration: Calibration) -> dict[str, Any]:
        """Make one calibration, and describe it as --json prints it."""
        perform(calibration)
        calibration.refresh_from_db()
        if calibration.state != Work.State.DONE:
            raise CommandError(f"{calibration}: {calibration.reason or calibration.get_state_display()}")
        for attribute, card in calibration.cards.items():
            area, falsely = card["whole"]["roc_auc"], card["whole"]["false_positives"]
            words = f"ROC AUC {area['value']:.3f} [{area['low']:.3f}, {area['high']:.3f}]" if area else "one label only"
            if falsely:
                words += f", {falsely['value']:.1%} of benign texts labelled"
            self.say(f"{calibration.evaluation_set}, {attribute}: {words}")
        return {"set": str(calibration.evaluation_set), "cards": calibration.cards}
