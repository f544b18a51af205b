"""The one clock of a board: its database's. Those of its hosts may differ by minutes, and decide nothing."""

from datetime import datetime, timedelta
from typing import Any

from django.db import connection, models
from django.db.models import Expression, ExpressionWrapper
from django.db.models.functions import Now


def from_now(seconds: float) -> Expression:
    """Return the time so many seconds from now, for queries."""
    return ExpressionWrapper(Now() + timedelta(seconds=seconds), output_field=models.DateTimeField())


def database_now() -> datetime:
    """Return the time now, to calculate with. One query."""
    query = (
        "STATEMENT_TIMESTAMP()" if connection.vendor == "postgresql" else "STRFTIME('%Y-%m-%d %H:%M:%f+00:00', 'NOW')"
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {query}")
        moment = cursor.fetchone()[0]
    return moment if isinstance(moment, datetime) else datetime.fromisoformat(moment)


def birth_field(**options: Any) -> "models.DateTimeField[datetime, datetime]":
    """Return a field that holds when the row was added."""
    return models.DateTimeField(db_default=Now(), editable=False, **options)
