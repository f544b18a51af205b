import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from leaderboard.models import LanguageModel, Metric, Scoring, Standing, Work
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation

POLL_SECONDS = 0.5
SILENCE_SECONDS = 15.0


class Command(BaseCommand):
    help = "Evaluate a model under a metric: collect, score, publish. The work is done by the workers."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="slug of the model, as add_model prints it")
        parser.add_argument("--metric", required=True, help="slug of the metric, as in safety-toxigen")
        parser.add_argument("--wait", action="store_true", help="show progress until the standings are published")

    def handle(self, model: str, metric: str, wait: bool, **options: Any) -> None:
        scoring = self.request(model, metric)
        if wait:
            self.watch(scoring)
            self.show(scoring)
        else:
            self.stdout.write(f"{scoring}: {scoring.run.get_state_display().lower()}; see its page for progress")

    def request(self, model: str, metric: str) -> Scoring:
        found_model = LanguageModel.objects.filter(slug=model).first()
        found_metric = Metric.objects.filter(slug=metric).first()
        if found_model is None:
            raise CommandError(f"there is no model {model!r}: enter it with `manage.py add_model REF`")
        if found_metric is None:
            known = ", ".join(Metric.objects.values_list("slug", flat=True)) or "none: run `manage.py seed`"
            raise CommandError(f"there is no metric {metric!r}; known: {known}")
        try:
            return request_evaluation(found_model, found_metric)
        except CannotEvaluate as error:
            raise CommandError(str(error)) from error

    def watch(self, scoring: Scoring) -> None:
        """Follow the work to its end. Ctrl-C stops the watching, not the work."""
        began = time.monotonic()
        silent = True
        with tqdm(desc=str(scoring), unit="text") as bar:
            while scoring.state != Work.State.DONE:
                scoring = Scoring.objects.select_related("run", "model", "metric_version__metric").get(pk=scoring.pk)
                run = scoring.run
                for work in (run, scoring):
                    if work.state in (Work.State.FAILED, Work.State.CANCELLED):
                        raise CommandError(f"{scoring}: {work.get_state_display().lower()}. {work.reason}")
                bar.total = run.total or None
                bar.update(run.done - bar.n)
                if silent and run.state == Work.State.QUEUED and time.monotonic() - began > SILENCE_SECONDS:
                    silent = False
                    bar.write(run.reason or "Waiting for a worker: none has taken this yet. `make run` starts one.")
                time.sleep(POLL_SECONDS)

    def show(self, scoring: Scoring) -> None:
        """The numbers it came to."""
        standings = Standing.objects.filter(
            metric_version=scoring.metric_version, model=scoring.model, population=scoring.model.kind
        ).select_related("result", "metric_version__metric")
        measure = scoring.metric_version.metric.measure
        for standing in standings.filter(measure=measure).order_by("slice"):
            result = standing.result
            self.stdout.write(
                f"{standing.slice:>16}  {measure} {result.value:.6f}  "
                f"95% {result.ci_low:.3f} to {result.ci_high:.3f}  rank {standing.rank} "
                f"({standing.rank_low} to {standing.rank_high}) among {scoring.model.kind} models  n {result.n}"
            )
