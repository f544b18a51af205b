"""What state the board is in, as a text that changes whenever one of its pages may."""

from datetime import UTC, datetime

from django.db import connection

from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    EvaluationSet,
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Result,
    Run,
    Scoring,
    Standing,
    Work,
)

# Rows of the board are added and never changed in what pages show of them, or else the audit trail says so.
NEWEST = [
    (table, "id")
    for table in (AuditEvent, EvaluationSet, LanguageModel, Metric, MetricVersion, OutdatedEntry, Result, Standing)
]
ENDED = [(ControlCheck, "finished_at"), (Rescoring, "finished_at")]


def board_stamp(watching: bool) -> str:
    """The state of the board in one query; with the progress of what is under way where `watching`.

    Of the day too: scorers are retired by date.
    """
    parts = [f"(SELECT MAX({column}) FROM {table._meta.db_table})" for table, column in (*NEWEST, *ENDED)]  # noqa: S608
    if watching:
        states = ", ".join(f"'{state}'" for state in Work.UNENDED)
        counted = "COUNT(*), SUM(done), SUM(attempts), COUNT(lease), COUNT(CASE WHEN held THEN 1 END)"
        of_work = " || '/' || ".join(f"COALESCE({count}, 0)" for count in counted.split(", "))
        of_work += " || '/' || COUNT(CASE WHEN state = 'failed' THEN 1 END)"
        parts += [
            f"(SELECT {of_work} FROM {table._meta.db_table} WHERE state IN ({states}))"  # noqa: S608 (names of ours)
            for table in (Run, Scoring, ControlCheck)
        ]
        active = "state IN ('running', 'paused')"
        parts.append(
            f"(SELECT MAX(id) || '/' || SUM(done) || '/' || MAX(state) FROM {Rescoring._meta.db_table} WHERE {active})"  # noqa: S608
        )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}")
        row = cursor.fetchone()
    return "|".join(map(str, (datetime.now(UTC).date(), *row)))
