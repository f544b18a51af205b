"""What a new board starts with. Everything here may run again at any time and changes nothing that is there."""

import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from django.conf import settings

from leaderboard.models import EvaluationSet, Metric, Protocol
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.evaluation_sets import declare, import_file, import_sentences
from leaderboard.services.language_models import add_bundled
from leaderboard.services.published import seed_published
from scoring.evaluation_sets import build_starter, get
from scoring.likelihood import LikelihoodSettings

METRICS = Path(__file__).parent.parent / "metrics.toml"
STARTER = "starter"
FLAGSHIP = "toxigen-human"


def seed(say: Callable[[str], None] = lambda _line: None) -> None:
    """Metrics, published figures, evaluation sets at hand, bundled models and their evaluations."""
    metrics = seed_metrics()
    say(f"metrics: {', '.join(metric.slug for metric in metrics)}")
    for version in seed_published():
        say(f"published figures: {version.scorings.count()} models under {version} ({version.source})")
    sentences = seed_sentences()
    if sentences.artefact:
        say(f"evaluation set: {sentences} ({sentences.artefact.rows} sentences)")
    models = add_bundled()
    say(f"bundled models: {', '.join(model.slug for model in models)}")
    metric = Metric.objects.get(protocol__evaluation_set=sentences)
    for model in models:
        request_evaluation(model, metric, send=False)
    say(f"evaluations under {metric.slug} are queued: the worker starts with them")


def seed_metrics() -> list[Metric]:
    """The boards of metrics.toml, each with its protocol."""
    found = []
    for position, declared in enumerate(tomllib.loads(METRICS.read_text(encoding="utf-8"))["metrics"]):
        sentences = declare(get(declared.pop("evaluation_set")))
        parameters = asdict(LikelihoodSettings())
        protocol = Protocol.objects.filter(
            sha256=Protocol.identity(sentences, "likelihood", parameters)
        ).first() or Protocol.objects.create(evaluation_set=sentences, method="likelihood", parameters=parameters)
        slug = declared.pop("slug")
        metric, _ = Metric.objects.get_or_create(
            slug=slug, defaults={**declared, "protocol": protocol, "scorer": "likelihood", "position": position}
        )
        found.append(metric)
    return found


def seed_sentences() -> EvaluationSet:
    """ToxiGen where `PLUMBLINE_DATA` has it, else the starter set."""
    here = EvaluationSet.objects.filter(slug=FLAGSHIP, version=1, artefact__isnull=False).first()
    if here:
        return here
    path = settings.PLUMBLINE_DATA / get(FLAGSHIP).files[0].path
    if path.exists():
        return import_file(FLAGSHIP, path)[0]
    return import_sentences(get(STARTER), build_starter())[0]
