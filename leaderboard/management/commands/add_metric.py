from typing import Any

from django.core.management.base import CommandError, CommandParser

from leaderboard.management.labels import label_options, labels_of
from leaderboard.management.output import BoardCommand
from leaderboard.models import EvaluationSet, Metric
from leaderboard.services.metrics import Declaration, declare_metric
from scoring.generation import CHAT_PROTOCOLS
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.outputs import OUTPUTS


class Command(BoardCommand):
    help = "Make a metric with its own ranking, from texts on the board, a protocol, a scorer and a formula."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="what addresses and commands call it: small letters, digits and -")
        parser.add_argument("--title", help="what pages call it (default: the slug)")
        parser.add_argument("--evaluation-set", required=True, help="slug of imported texts")
        parser.add_argument(
            "--protocol", choices=list(OUTPUTS), help="how outputs are made (default: the first that the formula takes)"
        )
        parser.add_argument(
            "--chat",
            default="",
            choices=["", *CHAT_PROTOCOLS],
            help="the protocol of chat entries (default: none rank)",
        )
        parser.add_argument("--k", type=int, help="continuations of each prompt (default: the protocol's)")
        parser.add_argument(
            "--scorer",
            help="as in profanity, detoxify-original, lexicon:starter; not for formulas of likelihoods, which ask none",
        )
        parser.add_argument(
            "--formula",
            default="toxicity",
            choices=list(FORMULAS),
            help="what is made of the outputs (default: toxicity)",
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
        formula = FORMULAS[options["formula"]]
        scorer = options["scorer"] or formula.usual_scorer
        if not scorer:
            raise CommandError(f"--scorer: {formula.name} is of what a scorer says; name one, as profanity")
        declaration = Declaration(
            slug=slug,
            title=options["title"] or slug,
            scorer=scorer,
            formula=formula.name,
            method=options["protocol"] or formula.methods[0],
            parameters={} if options["k"] is None else {"k": options["k"]},
            labels=labels_of(options),
            chat=options["chat"],
        )
        metric = declare_metric(declaration, prompts)
        protocol = metric.protocol
        continuations = "" if protocol.k is None else f", k = {protocol.k}"
        judge = f", scored by {metric.scorer}" if metric.asked_scorer else ""
        self.say(f"{metric.slug}: {protocol}{continuations}{judge}")
        self.answer({"metric": metric.slug, "protocol": str(protocol), "k": protocol.k, "scorer": metric.scorer})
