"""What state the board is in, as a text that changes whenever one of its pages may."""

from datetime import UTC, datetime
from typing import NamedTuple

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

# Rows of the board are added and never changed in what pages show of them, or else the audit trail says so. (All SQL
# here is made of names of ours.)
NEWEST = [
    (table, "id")
    for table in (AuditEvent, EvaluationSet, LanguageModel, Metric, MetricVersion, OutdatedEntry, Result, Standing)
]
ENDED = [(ControlCheck, "finished_at"), (Rescoring, "finished_at")]


class Stamp(NamedTuple):
    """The state of what stays, and of the work that is under way."""

    kept: str
    moving: str


def board_stamp() -> Stamp:
    """The state of the board, in one query. Of the day too: scorers are retired by date."""
    newest = [f"(SELECT MAX({column}) FROM {table._meta.db_table})" for table, column in (*NEWEST, *ENDED)]  # noqa: S608
    states = ", ".join(f"'{state}'" for state in Work.UNENDED)
    counted = "COUNT(*), SUM(done), SUM(attempts), COUNT(lease), COUNT(CASE WHEN held THEN 1 END)"
    of_work = " || '/' || ".join(f"COALESCE({count}, 0)" for count in counted.split(", "))
    of_work += " || '/' || COUNT(CASE WHEN state = 'failed' THEN 1 END)"
    moving = [
        f"(SELECT {of_work} FROM {table._meta.db_table} WHERE state IN ({states}))"  # noqa: S608
        for table in (Run, Scoring, ControlCheck)
    ]
    active = "state IN ('running', 'paused')"
    moving.append(
        f"(SELECT MAX(id) || '/' || SUM(done) || '/' || MAX(state) FROM {Rescoring._meta.db_table} WHERE {active})"  # noqa: S608
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(newest + moving)}")
        row = [str(value) for value in cursor.fetchone()]
    return Stamp("|".join([str(datetime.now(UTC).date()), *row[: len(newest)]]), "|".join(row[len(newest) :]))
