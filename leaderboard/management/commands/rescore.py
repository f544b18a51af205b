import sys
import time
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm

from leaderboard.management.labels import label_options, labels_of
from leaderboard.management.lookup import metric_called
from leaderboard.management.output import BoardCommand
from leaderboard.models import Metric, Rescoring
from leaderboard.services.rescore import CostEstimate, cancel, estimate, open_rescoring, pause, resume
from leaderboard.services.versions import find_rescoring

POLL_SECONDS = 0.5
STEPS = {"pause": pause, "resume": resume, "cancel": cancel}


class Command(BoardCommand):
    help = "Score all entries of a metric again under a new version, from stored outputs; or pause or cancel that."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("metric", help="slug of the metric, as in toxicity-profanity")
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--reason", help="why: starts a rescoring, and stays on record")
        for step in STEPS:
            group.add_argument(f"--{step}", action="store_true", help=f"{step} the rescoring under way")
        group.add_argument("--estimate", action="store_true", help="only say what it would cost")
        parser.add_argument("--scorer", default="", help="of the new version, where another takes over")
        label_options(parser)
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation after the estimate")
        parser.add_argument("--wait", action="store_true", help="show progress until the new version is published")

    def handle(self, metric: str, **options: Any) -> None:
        metric_row = metric_called(metric)
        steps = [step for name, step in STEPS.items() if options[name]]
        if steps and options["scorer"]:
            raise CommandError(
                f"--scorer = {options['scorer']!r}: it is for a new rescoring; leave it out, or use --reason"
            )
        if steps:
            self.steer(metric_row, steps[0])
            return
        cost = estimate(metric_row, options["scorer"])
        self.say(in_words(cost))
        if options["estimate"]:
            self.answer({"metric": metric_row.slug, "estimate": asdict(cost)})
            return
        if active := find_rescoring(metric_row):
            self.say(f"{active} is given up for this one; {active.done} of {active.total} entries are done")
        asks_first = sys.stdin.isatty() and not options["yes"] and not self.as_json
        if asks_first and input("Go on? [y/N] ").strip().lower() != "y":
            raise CommandError("nothing was done")
        rescoring = open_rescoring(metric_row, options["reason"], scorer=options["scorer"], labels=labels_of(options))
        self.say(f"{rescoring}: {rescoring.total} entries are queued")
        if options["wait"]:
            self.watch(rescoring)
        self.answer(state_of(rescoring))

    def steer(self, metric: Metric, step: Any) -> None:
        """Pause, resume or cancel."""
        active = find_rescoring(metric)
        if active is None or not step(active):
            state = active.get_state_display().lower() if active else "none is under way"
            raise CommandError(f"there is no rescoring of {metric.slug} to {step.__name__}: {state}")
        active.refresh_from_db()
        self.answer(state_of(active))
        self.say(f"{active}: {active.get_state_display().lower()}, {active.done} of {active.total} entries")

    def watch(self, rescoring: Rescoring) -> None:
        """Follow it to its end. Ctrl-C stops the watching, not the work."""
        with tqdm(desc=str(rescoring), unit="entry", total=rescoring.total) as bar:
            while True:
                rescoring.refresh_from_db()
                bar.total = rescoring.total
                bar.update(rescoring.done - bar.n)
                if rescoring.state == Rescoring.State.PUBLISHED:
                    break
                if rescoring.state == Rescoring.State.CANCELLED:
                    raise CommandError(f"{rescoring}: cancelled")
                time.sleep(POLL_SECONDS)
        outdated_count = rescoring.to_version.outdated.count()
        self.say(f"{rescoring.to_version} is published; {outdated_count} entries could not be rescored")


def state_of(rescoring: Rescoring) -> dict[str, Any]:
    """A rescoring as --json prints it."""
    return {
        "rescoring": rescoring.pk,
        "metric": rescoring.metric.slug,
        "from": rescoring.from_version.number,
        "to": rescoring.to_version.number,
        "state": rescoring.state,
        "done": rescoring.done,
        "total": rescoring.total,
        "outdated": rescoring.to_version.outdated.count(),
    }


def in_words(cost: CostEstimate) -> str:
    """An estimate in a sentence. Likelihoods are stored: a metric of them has no texts to score."""
    texts = f", {cost.texts:,} texts" if cost.texts else ""
    seconds = f"about {cost.seconds:.0f} s" if cost.seconds >= 1 else "less than a second"
    days = "" if cost.api_days is None else f", {cost.api_days:.1f} days at the quota of its service"
    fee = "" if cost.usd is None else f", {cost.usd:,.2f} US dollars"
    return f"{cost.entries} entries{texts}, {seconds} of scoring{days}{fee}"
