import time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import Count
from tqdm import tqdm

from leaderboard.management.lookup import metric_called, model_called
from leaderboard.management.output import BoardCommand
from leaderboard.models import Scoring, Standing, Work
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.metrics import CannotDeclare, with_k
from leaderboard.services.places import own_population, population_in_words
from scoring.metrics.formulas import slice_label, slices_in_order

POLL_SECONDS = 0.5
SILENCE_SECONDS = 15.0


class Command(BoardCommand):
    help = "Evaluate a model under a metric: collect, score, publish. The work is done by the workers."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="slug of the model, as add_model prints it")
        parser.add_argument("--metric", required=True, help="slug of the metric, as in safety-toxigen")
        parser.add_argument("--k", type=int, help="continuations of each prompt: as a metric of its own, METRIC-kK")
        parser.add_argument("--wait", action="store_true", help="show progress until the standings are published")

    def handle(self, model: str, metric: str, k: int | None, wait: bool, **options: Any) -> None:
        scoring = self.request(model, metric, k)
        if wait:
            self.watch(scoring)
            self.show(scoring)
        else:
            work = scoring if scoring.run.state == Work.State.DONE else scoring.run
            self.say(f"{scoring}: {work.get_state_display().lower()}; see its page for progress")
        self.answer(self.found(scoring))

    def found(self, scoring: Scoring) -> dict[str, Any]:
        """The evaluation as --json prints it: its states, and its numbers once there are some."""
        scoring.refresh_from_db()
        version, results = scoring.metric_version, scoring.results.order_by("measure", "slice")
        fields = ("measure", "slice", "value", "ci_low", "ci_high", "n", "missing", "p_value", "p_adjusted")
        return {
            "model": scoring.model.slug,
            "metric": version.metric.slug,
            "version": version.number,
            "run": {"id": scoring.run_id, "state": scoring.run.state if scoring.run else None},
            "scoring": {"id": scoring.pk, "state": scoring.state},
            "results": list(results.values(*fields)),
        }

    def request(self, model: str, metric: str, k: int | None) -> Scoring:
        found_model, found_metric = model_called(model), metric_called(metric)
        try:
            return request_evaluation(found_model, found_metric if k is None else with_k(found_metric, k))
        except (CannotEvaluate, CannotDeclare) as error:
            raise CommandError(str(error)) from error

    def watch(self, scoring: Scoring) -> None:
        """Follow the work to its end, collecting and then scoring. Ctrl-C stops the watching, not the work."""
        began = time.monotonic()
        silent = True
        for step in ("run", None):
            work = self.again(scoring, step)
            if step is None and work.state == Work.State.DONE and not work.total:
                break  # nothing of it was there to see
            with tqdm(desc=str(work), unit="text") as bar:
                while True:
                    work = self.again(scoring, step)
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

    def again(self, scoring: Scoring, step: str | None) -> Work:
        """The run of the scoring, or the scoring itself, as it is now."""
        found = Scoring.objects.select_related("run__model", "run__protocol__evaluation_set", "model").get(
            pk=scoring.pk
        )
        return getattr(found, step) if step else found

    def show(self, scoring: Scoring) -> None:
        """The numbers it came to: every ranked measure, on the slices that the metric is read by."""
        metric = scoring.metric_version.metric
        population = own_population(scoring.model, metric)
        standings = Standing.objects.filter(
            metric_version=scoring.metric_version, model=scoring.model, population=population
        ).select_related("result")
        ranked = Standing.objects.filter(metric_version=scoring.metric_version, population=population).order_by()
        counted = ranked.values_list("measure", "slice").annotate(Count("pk"))
        sizes = {(measure, name): size for measure, name, size in counted}
        by_place = {(standing.measure, standing.slice): standing for standing in standings}
        if scoring.why_unranked:
            self.say(f"not ranked: {scoring.why_unranked}")
        k = metric.protocol.k
        for measure in metric.formula.ranked:
            for name in slices_in_order(name for key, name in by_place if key == measure.key):
                standing = by_place[measure.key, name]
                among = population_in_words(sizes[measure.key, name], population, metric.formula.by_kind)
                result = standing.result
                ends = "" if result.ci_low is None else f"95% {result.ci_low:.4f} to {result.ci_high:.4f}  "
                place = "" if standing.rank_low is None else f" ({standing.rank_low} to {standing.rank_high})"
                self.say(
                    f"{slice_label(name):>36}  {measure.key} {result.value:.6f}  {ends}"
                    f"rank {standing.rank}{place} of {among}  n {result.n}{f'  k {k}' if k else ''}"
                )
