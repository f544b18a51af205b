"""What people should look at: entries that are held back, and what a model's tokenizer read."""

from collections.abc import Iterable
from typing import Any

from leaderboard.models import EntryCheck, LanguageModel, MetricVersion, Run, course_fields
from scoring.metrics.safety import SLICE_LABELS

Group = tuple[str, dict[str, Any]]  # its name, and its numbers as the report has them


def held_back() -> list[EntryCheck]:
    """Entries that wait for a moderator, the oldest first; not those of versions that were given up."""
    held_checks = EntryCheck.objects.filter(state=EntryCheck.State.HELD).exclude(
        scoring__metric_version__status__in=MetricVersion.CLOSED
    )
    return list(held_checks.select_related("scoring__model", "scoring__run", "scoring__metric_version__metric"))


def checks_of(model: LanguageModel) -> list[EntryCheck]:
    """The flagged entries of a model under the newest versions of their metrics."""
    checks = EntryCheck.objects.filter(scoring__model=model).exclude(
        scoring__metric_version__status__in=MetricVersion.CLOSED
    )
    checks = checks.select_related("scoring__metric_version__metric").defer(*course_fields("scoring__"))
    return list(checks.order_by("scoring__metric_version__metric"))


def readings(runs: Iterable[Run]) -> list[tuple[Run, list[Group]]]:
    """Of each run with a report of its tokenizer: the groups of texts, canaries last."""
    return [(run, groups_of(run.tokenizer_report)) for run in runs if run.tokenizer_report]


def groups_of(report: dict[str, Any]) -> list[Group]:
    """The groups of a report by the names that people read."""
    known_groups = [(SLICE_LABELS.get(name, name.capitalize()), group) for name, group in report["known"].items()]
    return known_groups + [(f"Canaries, {name}", group) for name, group in report["canaries"].items()]
