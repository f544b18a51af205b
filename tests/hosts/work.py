"""The work that hosts are given, and what became of it. As a program: the same work, undisturbed, in one process."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import django

MODELS = ("plumb-gpt2-l2-h128", "plumb-gpt2-l4-h256", "plumb-gpt2-l6-h128")
TEXTS = 24


def declare(number: int) -> Any:
    """Return the metric of a fault: a lexicon's words in continuations, of which each fault has another number."""
    from leaderboard.services import scorers
    from leaderboard.services.evaluation_sets import declare as declare_set
    from leaderboard.services.evaluation_sets import import_prompts
    from leaderboard.services.metrics import Declaration, declare_metric
    from scoring.evaluation_sets import build_regard, get

    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder) / "words"
        words.mkdir()
        (words / "words.txt").write_text("woman\nshe\nthe\n")
        scorers.import_lexicon("hosts", words)
    prompts = [prompt for prompt in build_regard() if prompt.group == "women"][:TEXTS]
    openings = import_prompts(declare_set(get("regard-openings")), prompts)[0]
    slug = f"words-{number}"
    return declare_metric(
        Declaration(slug, slug, "lexicon:hosts", "lexicon_frequency", "rtp", {"k": 6 + number}), openings
    )


def models() -> list[Any]:
    """The bundled models that are measured."""
    from leaderboard.models import LanguageModel
    from leaderboard.services.language_models import add_bundled

    if not LanguageModel.objects.filter(name__in=MODELS).exists():
        add_bundled()
    return list(LanguageModel.objects.filter(name__in=MODELS).order_by("name"))


def request_work(number: int) -> list[Any]:
    """Ask for the evaluation of all models under the metric of a fault."""
    from leaderboard.models import Metric
    from leaderboard.services.evaluate import request_evaluation

    metric = Metric.objects.filter(slug=f"words-{number}").first() or declare(number)
    return [request_evaluation(model, metric) for model in models()]


def describe_results() -> dict[str, Any]:
    """By entry: the hashes of its files, its numbers, and how often it was tried in vain."""
    from leaderboard.models import Scoring

    rows = {}
    for scoring in Scoring.objects.select_related("run__artefact", "artefact", "model", "metric_version__metric"):
        numbers = list(scoring.results.order_by("measure", "slice").values_list("measure", "slice", "value", "n"))
        key = f"{scoring.metric_version.metric.slug} {scoring.model.name}"
        rows[key] = [scoring.run.artefact.sha256, scoring.artefact.sha256, scoring.attempts, numbers]
    return rows


def open_incidents() -> set[str]:
    """The keys of open incidents about hosts and queues."""
    from leaderboard.models import Incident

    kinds = [Incident.Kind.HOSTS, Incident.Kind.WORKERS]
    return set(Incident.objects.filter(resolved_at=None, kind__in=kinds).values_list("key", flat=True))


def living_workers() -> set[str]:
    """The names of the workers that live."""
    from leaderboard.models import Worker

    return set(Worker.objects.alive().values_list("name", flat=True))


def main(count: int) -> None:
    """Do the work of so many faults in this process, on an empty database, and print what comes out."""
    django.setup()
    from django.core.management import call_command

    from leaderboard.services import collect, score

    call_command("migrate", verbosity=0)
    for number in range(count):
        for scoring in request_work(number):
            collect.collect(scoring.run)
            scoring.refresh_from_db()
            score.score(scoring)
    sys.stdout.write(f"{json.dumps(describe_results())}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
