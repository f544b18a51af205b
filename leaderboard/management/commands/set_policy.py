from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.models import Metric
from leaderboard.services.policies import (
    BRAKE,
    FIELDS,
    FLAGGED,
    MOST_MISSING,
    OUTDATED,
    CannotSetPolicy,
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
        for of in (*FIELDS, MOST_MISSING, BRAKE):
            kind = int if of.whole else (lambda text: None if text == NONE else float(text)) if of.optional else float
            said = of.help.replace("%", "%%") + (f" `{NONE}` for no value." if of.optional else "")
            parser.add_argument(f"--{of.name.replace('_', '-')}", type=kind, default=..., metavar="N", help=said)
        parser.add_argument("--outdated", dest=OUTDATED, default=..., choices=Metric.OutdatedPolicy.values)
        parser.add_argument("--flagged", dest=FLAGGED, default=..., choices=Metric.FlagPolicy.values)
        parser.add_argument("--reason", default="", help="why: stands in the change log for ever")

    def handle(self, metric: str, reason: str, **options: Any) -> None:
        found = metric_called(metric)
        before = policy_in_force(found)
        names = (*(of.name for of in (*FIELDS, MOST_MISSING, BRAKE)), OUTDATED, FLAGGED)
        changes = {name: options[name] for name in names if options.get(name, ...) is not ...}
        if changes:
            try:
                set_policy(found, changes, reason)
            except CannotSetPolicy as error:
                raise CommandError(str(error)) from error
            found.refresh_from_db()
        after = policy_in_force(found)
        was, became = difference(before, after)
        for name, value in after.items():
            self.say(f"{name} = {value}" + (f" (was {was[name]})" if name in became else ""))
        self.answer({"metric": found.slug, "policy": after, "before": was, "changed": bool(became)})
