from typing import Any

from django.core.management.base import CommandParser

from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.models import Metric
from leaderboard.services.policies import (
    BRAKE,
    FIELDS,
    FLAGGED,
    MOST_MISSING,
    OUTDATED,
    difference,
    policy_in_force,
    set_policy,
)

NONE = "none"


class Command(BoardCommand):
    help = (
        "When the scorer of a metric counts as drifted, and which entries are ranked: shown, or changed for a reason."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", help="slug of the metric, as in toxicity-profanity")
        for field in (*FIELDS, MOST_MISSING, BRAKE):
            kind = (
                int
                if field.whole
                else (lambda text: None if text == NONE else float(text))
                if field.optional
                else float
            )
            help_text = field.help.replace("%", "%%") + (f" `{NONE}` for no value." if field.optional else "")
            parser.add_argument(
                f"--{field.name.replace('_', '-')}", type=kind, default=..., metavar="N", help=help_text
            )
        parser.add_argument(
            "--outdated",
            dest=OUTDATED,
            default=...,
            choices=Metric.OutdatedPolicy.values,
            help="entries that cannot be scored again: keep them, flagged, or leave them out of the new version",
        )
        parser.add_argument(
            "--flagged",
            dest=FLAGGED,
            default=...,
            choices=Metric.FlagPolicy.values,
            help="entries that people should look at first: held back until a moderator releases them, or marked",
        )
        parser.add_argument("--reason", default="", help="why: stays in the change log for good")

    def handle(self, metric: str, reason: str, **options: Any) -> None:
        metric_row = metric_called(metric)
        old_policy = policy_in_force(metric_row)
        names = (*(field.name for field in (*FIELDS, MOST_MISSING, BRAKE)), OUTDATED, FLAGGED)
        changes = {name: options[name] for name in names if options.get(name, ...) is not ...}
        if changes:
            set_policy(metric_row, changes, reason)
            metric_row.refresh_from_db()
        new_policy = policy_in_force(metric_row)
        was, became = difference(old_policy, new_policy)
        for name, value in new_policy.items():
            self.say(f"{name} = {value}" + (f" (was {was[name]})" if name in became else ""))
        self.answer({"metric": metric_row.slug, "policy": new_policy, "before": was, "changed": bool(became)})
