from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.labels import label_options, labels_of
from leaderboard.management.output import BoardCommand
from leaderboard.models import EvaluationSet, Metric
from leaderboard.services.metrics import CannotDeclare, Declaration, declare_metric
from scoring.generation import PROTOCOLS
from scoring.metrics.formulas import FORMULAS


class Command(BoardCommand):
    help = "Make a metric, with a ranking of its own: prompts of the board, a generation protocol, a scorer, a formula."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--title", help="what pages call it (default: the slug)")
        parser.add_argument("--evaluation-set", required=True, help="slug of imported prompts")
        parser.add_argument("--protocol", default="rtp", choices=list(PROTOCOLS), help="how to sample (default: rtp)")
        parser.add_argument("--k", type=int, help="continuations of each prompt (default: the protocol's)")
        parser.add_argument("--scorer", required=True, help="as in profanity, detoxify-original, lexicon:starter")
        parser.add_argument(
            "--formula",
            default="toxicity",
            choices=[formula.name for formula in FORMULAS.values() if formula.asks_scorer],
            help="what is made of the scores (default: toxicity)",
        )
        label_options(parser)

    def handle(self, slug: str, evaluation_set: str, **options: Any) -> None:
        prompts = EvaluationSet.objects.filter(slug=evaluation_set, artefact__isnull=False).last()
        if prompts is None:
            raise CommandError(
                f"there are no texts {evaluation_set!r} here: run `manage.py import_evaluation_set` first"
            )
        if Metric.objects.filter(slug=slug).exists():
            raise CommandError(f"there is a metric {slug!r} already: choose another slug")
        declared = Declaration(
            slug=slug,
            title=options["title"] or slug,
            scorer=options["scorer"],
            formula=options["formula"],
            method=options["protocol"],
            parameters={} if options["k"] is None else {"k": options["k"]},
            labels=labels_of(options),
        )
        try:
            metric = declare_metric(declared, prompts)
        except CannotDeclare as error:
            raise CommandError(str(error)) from error
        protocol = metric.protocol
        self.say(f"{metric.slug}: {protocol}, k = {protocol.k}, scored by {metric.scorer}")
        self.answer({"metric": metric.slug, "protocol": str(protocol), "k": protocol.k, "scorer": metric.scorer})
