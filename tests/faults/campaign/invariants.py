"""What must hold after each fault, whatever it was. Each returns sentences: of what does not hold."""

from typing import Any

from django.db.models import Count

from leaderboard.models import WORK_TABLES, AuditEvent, Incident, MetricVersion, OutboxMessage, Scoring, Work
from leaderboard.storage import board_storage
from tests.faults.campaign.phases import hash_of

MOST_ASKED_AGAIN = 16  # answers on their way to a worker as it died, and to the one after it


def find_differences(outcome: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Where files, numbers or ranks are not those of the undisturbed board."""
    return [
        f"{name} differs from the undisturbed board: {outcome.get(name)} in place of {expected.get(name)}"[:600]
        for name in sorted(outcome.keys() | expected.keys())
        if outcome.get(name) != expected.get(name)
    ]


def find_lost_work() -> list[str]:
    """Work that ended without a result."""
    lost = []
    for table in WORK_TABLES:
        for work in table.objects.filter(state=Work.State.FAILED):
            lost.append(f"{work} failed: {work.fault}: {work.reason}"[:400])
    return lost


def find_doubles() -> list[str]:
    """What was counted or published twice."""
    scorings = Scoring.objects.values("run", "metric_version").annotate(count=Count("pk")).filter(count__gt=1)
    results = Scoring.objects.values("results__scoring", "results__measure", "results__slice")
    results = results.exclude(results=None).annotate(count=Count("pk")).filter(count__gt=1)
    published: dict[tuple[str, Any], int] = {}
    for subject, detail in AuditEvent.objects.filter(verb="publish version").values_list("subject", "detail"):
        place = subject, detail.get("version")
        published[place] = published.get(place, 0) + 1
    return [
        *(f"run {row['run']} is scored {row['count']} times in one version" for row in scorings),
        *(f"a result is there {row['count']} times" for row in results),
        *(
            f"{subject} v{number} was published {count} times"
            for (subject, number), count in published.items()
            if count > 1
        ),
    ]


def find_repeated_questions(count: int) -> list[str]:
    """Whether a service that costs money was asked much again that it had answered. count: more than undisturbed."""
    return [f"{count} texts were scored again that had been"] if count > MOST_ASKED_AGAIN else []


def find_halves() -> list[str]:
    """Versions that are published without all of their entries, and current ones of which there are several."""
    current = MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT)
    several = current.values("metric", "provenance").annotate(count=Count("pk")).filter(count__gt=1)
    halves = [f"metric {row['metric']} has {row['count']} current versions" for row in several]
    for version in current.filter(published_at__isnull=False, scorings__isnull=False).distinct():
        done = set(version.scorings.filter(state=Work.State.DONE, held=False).values_list("model", flat=True))
        ranked = set(version.standings.values_list("model", flat=True))
        if done - ranked:
            halves.append(f"{version} ranks {len(ranked)} of {len(done)} entries")
        left_out = list(version.outdated.values_list("model__slug", "reason"))
        halves += [f"{version} leaves out {slug}: {reason}" for slug, reason in left_out]
    return halves


def find_open_incidents() -> list[str]:
    """What an operator is still told of, or is not told yet that it is over."""
    incidents = [f"open: {row}: {row.summary}"[:300] for row in Incident.objects.filter(resolved_at=None)]
    waiting = OutboxMessage.objects.waiting().filter(kind=OutboxMessage.Kind.ALERT)
    return incidents + [f"not delivered: {message}" for message in waiting.select_related("incident")]


def is_idle() -> bool:
    """Whether no work of any kind waits or is under way."""
    return not any(table.objects.unfinished().exists() for table in WORK_TABLES)


def find_leftovers() -> list[str]:
    """Checkpoints of work that is over."""
    return [f"{file.name} is left" for file in board_storage().list_files("shards")]


def describe_board() -> dict[str, str]:
    """Hashes of all that the board holds, by metric version: files and numbers of entries, and ranks."""
    fields = ("measure", "slice", "value", "ci_low", "ci_high", "n", "missing", "p_value", "p_adjusted")
    ranked = ("measure", "slice", "population", "model__slug", "rank", "rank_low", "rank_high", "value")
    board = {}
    for version in MetricVersion.objects.filter(scorings__isnull=False).select_related("metric").distinct():
        entries = []
        for scoring in version.scorings.select_related("model", "run__artefact", "artefact").order_by("model__slug"):
            files = [
                artefact and artefact.sha256 for artefact in (scoring.run and scoring.run.artefact, scoring.artefact)
            ]
            rows = list(scoring.results.order_by("measure", "slice").values_list(*fields))
            entries.append((scoring.model.slug, scoring.state, files, hash_of(rows)))
        ranks = list(version.standings.order_by(*ranked[:4]).values_list(*ranked))
        board[f"{version.metric.slug} v{version.number}"] = hash_of([entries, ranks])
    return board
