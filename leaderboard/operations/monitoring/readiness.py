"""Whether this process can do its work: everything it needs answers, within a few seconds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress

from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from kombu import Connection

from leaderboard.operations.alerts.machinery import sweep_is_late_by
from leaderboard.services.artefacts import SENTINEL, require_storage
from leaderboard.services.storage_probe import write_probe
from leaderboard.storage import StorageAway

PATIENCE = 3.0  # seconds, for each of them


def database() -> str:
    """Empty where a query has an answer."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return ""


def migrations() -> str:
    """Empty where the database has the shape that this code expects."""
    executor = MigrationExecutor(connection)
    unapplied_migrations = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return f"not applied: {len(unapplied_migrations)}; run `manage.py migrate`" if unapplied_migrations else ""


def broker() -> str:
    """Empty where the broker answers."""
    options = {**settings.CELERY_BROKER_TRANSPORT_OPTIONS, "socket_timeout": 2, "socket_connect_timeout": 2}
    with Connection(settings.CELERY_BROKER_URL, connect_timeout=2, transport_options=options) as connection_to_broker:
        connection_to_broker.ensure_connection(max_retries=1, interval_start=0, timeout=2)
    return ""


def storage() -> str:
    """Empty where the storage is the board's, and a file can be written, and taken away."""
    try:
        require_storage()
    except StorageAway:
        return f"away: its file {SENTINEL} cannot be read; mount the storage"
    write_probe()
    return ""


def sweep() -> str:
    """Empty where workers looked for waiting work lately; else how long ago, which is also when beat was last heard."""
    late = sweep_is_late_by()
    return "" if late is None else f"the last one was {late:.0f} s ago: beat, the broker or all workers are down"


CHECKS: dict[str, Callable[[], str]] = {
    "database": database,
    "migrations": migrations,
    "broker": broker,
    "storage": storage,
    "sweep": sweep,
}


def check_all() -> dict[str, str]:
    """Run all checks; by name: "ok", or what is wrong, without addresses or keys."""
    executor = ThreadPoolExecutor(len(CHECKS), thread_name_prefix="readiness")
    futures = {name: executor.submit(_answer, check) for name, check in CHECKS.items()}
    answers = {}
    for name, future in futures.items():
        try:
            answers[name] = future.result(PATIENCE) or "ok"
        except TookTooLong:
            answers[name] = f"no answer in {PATIENCE:g} seconds"
    executor.shutdown(wait=False, cancel_futures=True)
    return answers


def _answer(check: Callable[[], str]) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 (whatever it is: this is not ready, and says so)
        return f"does not answer ({type(error).__name__})"
    finally:
        with suppress(Error):
            connection.close()  # this thread's own
