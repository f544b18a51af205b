import time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm

from leaderboard.management.lookup import metric_called, model_called
from leaderboard.management.output import BoardCommand
from leaderboard.models import Scoring, Work
from leaderboard.rankings.places import places_under
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.metrics import with_k
from scoring.metrics.formulas import slice_label, slices_in_order

POLL_SECONDS = 0.5
SILENCE_SECONDS = 15.0

NUMBERS = (
    *("measure", "slice", "value", "ci_low", "ci_high", "n", "missing", "missing_texts", "worst_low", "worst_high"),
    *("p_value", "p_adjusted"),
)  # of a result, as --json prints it


class Command(BoardCommand):
    help = "Evaluate a model under a metric: collect, score, publish. The work is done by the workers."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="slug of the model, as add_model prints it")
        parser.add_argument("--metric", required=True, help="slug of the metric, as in safety-toxigen")
        parser.add_argument("--k", type=int, help="continuations of each prompt, as a separate metric, METRIC-kK")
        parser.add_argument("--wait", action="store_true", help="show progress until the standings are published")

    def handle(self, model: str, metric: str, k: int | None, wait: bool, **options: Any) -> None:
        scoring = self.request(model, metric, k)
        if wait:
            self.watch(scoring)
            self.show(scoring)
        else:
            run = scoring.run
            work: Work = scoring if run is None or run.state == Work.State.DONE else run
            self.say(f"{scoring}: {work.get_state_display().lower()}; see its page for progress")
        self.answer(self.describe_scoring(scoring))

    def describe_scoring(self, scoring: Scoring) -> dict[str, Any]:
        """The evaluation as --json prints it: its states, and its numbers once there are some."""
        scoring.refresh_from_db()
        version, results = scoring.metric_version, scoring.results.order_by("measure", "slice")
        return {
            "model": scoring.model.slug,
            "metric": version.metric.slug,
            "version": version.number,
            "run": {"id": scoring.run_id, "state": scoring.run.state if scoring.run else None},
            "scoring": {"id": scoring.pk, "state": scoring.state},
            "results": list(results.values(*NUMBERS)),
        }

    def request(self, model: str, metric: str, k: int | None) -> Scoring:
        found_model, found_metric = model_called(model), metric_called(metric)
        return request_evaluation(found_model, found_metric if k is None else with_k(found_metric, k))

    def watch(self, scoring: Scoring) -> None:
        """Follow the work to its end, collecting and then scoring. Ctrl-C stops the watching, not the work."""
        began = time.monotonic()
        silent = True
        for step in ("run", None):
            work = self.reload(scoring, step)
            if step is None and work.state == Work.State.DONE and not work.total:
                break  # nothing of it was there to see
            with tqdm(desc=str(work), unit="text") as bar:
                while True:
                    work = self.reload(scoring, step)
                    if work.state in (Work.State.FAILED, Work.State.CANCELLED):
                        raise CommandError(f"{work}: {work.get_state_display().lower()}. {work.reason}")
                    bar.total = work.total or None
                    bar.update(work.done - bar.n)
                    if work.state == Work.State.DONE:
                        break
                    if silent and work.state == Work.State.QUEUED and time.monotonic() - began > SILENCE_SECONDS:
                        silent = False
                        bar.write(
                            work.reason or "Waiting for a worker: none has taken this yet. `make run` starts one."
                        )
                    time.sleep(POLL_SECONDS)

    def reload(self, scoring: Scoring, step: str | None) -> Work:
        """The run of the scoring, or the scoring itself, as it is now."""
        fresh_scoring = Scoring.objects.select_related("run__model", "run__protocol__evaluation_set", "model").get(
            pk=scoring.pk
        )
        return getattr(fresh_scoring, step) if step else fresh_scoring

    def show(self, scoring: Scoring) -> None:
        """The numbers it came to: every ranked measure, on the slices that the metric is read by."""
        metric = scoring.metric_version.metric
        places = places_under(scoring.model, scoring.metric_version)
        if scoring.why_unranked:
            self.say(f"not ranked: {scoring.why_unranked}")
        k = metric.protocol.k
        for measure in metric.formula.ranked:
            for name in slices_in_order(name for key, name in places if key == measure.key):
                place = places[measure.key, name]
                result = place.standing.result
                ends = "" if result.ci_low is None else f"95% {result.ci_low:.4f} to {result.ci_high:.4f}  "
                span = "" if place.low is None else f" ({place.low} to {place.high})"
                self.say(
                    f"{slice_label(name):>36}  {measure.key} {result.value:.6f}  {ends}"
                    f"rank {place.rank}{span} of {place.population}  n {result.n}{f'  k {k}' if k else ''}"
                )
