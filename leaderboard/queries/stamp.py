"""What state the board is in, as a text that changes whenever one of its pages may."""

from datetime import UTC, datetime
from typing import NamedTuple

from django.db import connection
from django.db.models import Model

from leaderboard.models import (
    WORK_TABLES,
    AuditEvent,
    AuditVerb,
    Calibration,
    EvaluationSet,
    LanguageModel,
    Metric,
    MetricVersion,
    ModelIdentity,
    OutdatedEntry,
    Rescoring,
    Result,
    Standing,
    Work,
)
from leaderboard.models.audit import LogSection

# Rows of the board are added and never changed in what pages show of them, or else the audit trail says so, by an event
# that is not about people. (All SQL here is made of names of ours.)
ABOUT_PEOPLE = ", ".join(f"'{verb}'" for verb in AuditVerb if verb.section == LogSection.PEOPLE)
EVENTS = f"(SELECT id FROM {AuditEvent._meta.db_table} WHERE verb NOT IN ({ABOUT_PEOPLE})) AS events"  # noqa: S608
ADDED: tuple[type[Model], ...] = (
    *(EvaluationSet, LanguageModel, Metric, MetricVersion),
    *(ModelIdentity, OutdatedEntry, Result, Standing),
)
NEWEST = [(rows, "id") for rows in (EVENTS, *(table._meta.db_table for table in ADDED))]
RECENT = 200  # keys below the newest, among which rows may still come of transactions that are late to commit
SHOWN_CHECKS = [table for table in WORK_TABLES if table.kind.on_pages and not table.kind.evaluates]
SHOWN_ENDS: tuple[type[Model], ...] = (*SHOWN_CHECKS, Calibration, Rescoring)
ENDED = [(table._meta.db_table, "finished_at") for table in SHOWN_ENDS]


class Stamp(NamedTuple):
    """The state of what stays, and of the work that is under way."""

    kept: str
    moving: str


def board_stamp() -> Stamp:
    """The state of the board, in one query. Of the day too: scorers are retired by date.

    Publications are counted by each version, under its lock. Of the other tables the newest key alone would hide a row
    that was made earlier and committed later: so the rows among the last keys are counted too.
    """
    newest = [f"(SELECT SUM(publications) FROM {MetricVersion._meta.db_table})"]  # noqa: S608
    for rows, column in (*NEWEST, *ENDED):
        newest.append(f"(SELECT MAX({column}) FROM {rows})")  # noqa: S608
        if column == "id":
            # Through the index, however many rows there are: a plain WHERE has PostgreSQL read the table.
            last = f"SELECT id FROM {rows} ORDER BY id DESC LIMIT {RECENT}"  # noqa: S608
            newest.append(f"(SELECT COUNT(*) FROM ({last}) AS last WHERE id > (SELECT MAX(id) - {RECENT} FROM {rows}))")  # noqa: S608
    states = ", ".join(f"'{state}'" for state in Work.UNENDED)
    counts = "COUNT(*), SUM(done), SUM(attempts), COUNT(lease), COUNT(CASE WHEN held THEN 1 END)"
    of_work = " || '/' || ".join(f"COALESCE({count}, 0)" for count in counts.split(", "))
    of_work += " || '/' || COUNT(CASE WHEN state = 'failed' THEN 1 END)"
    moving_parts = [
        f"(SELECT {of_work} FROM {table._meta.db_table} WHERE state IN ({states}))"  # noqa: S608
        for table in WORK_TABLES
        if table.kind.on_pages
    ]
    active = "state IN ('running', 'paused')"
    moving_parts.append(
        f"(SELECT MAX(id) || '/' || SUM(done) || '/' || MAX(state) FROM {Rescoring._meta.db_table} WHERE {active})"  # noqa: S608
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(newest + moving_parts)}")
        row = [str(value) for value in cursor.fetchone()]
    return Stamp("|".join([str(datetime.now(UTC).date()), *row[: len(newest)]]), "|".join(row[len(newest) :]))
