"""Durations of requests, counted by all web processes together in files of PLUMBLINE_VAR."""

from pathlib import Path

from django.conf import settings
from django.http import HttpRequest
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = settings.REQUEST_COUNTS
FOLDER.mkdir(parents=True, exist_ok=True)


def clear_after_restart() -> None:
    """Delete the counts if none of the processes that made them lives; they would stay for ever."""
    files = {path: path.stem.rpartition("_")[2] for path in FOLDER.glob("*.db")}
    if not any(Path(f"/proc/{pid}").exists() for pid in files.values()):
        for path in files:
            path.unlink(missing_ok=True)


clear_after_restart()

SECONDS = Histogram(
    "plumbline_http_request_seconds",
    "Seconds until the headers of an answer, by page and class of status.",
    ["method", "view", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=CollectorRegistry(),
)
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


def observe(request: HttpRequest, status: int, seconds: float) -> None:
    """Count one request. Its labels come from closed sets, so visitors cannot add any."""
    match = request.resolver_match
    observe_view((match.view_name or "unnamed") if match else "none", request.method, status, seconds)


def observe_view(view: str, method: str | None, status: int, seconds: float) -> None:
    """Count one request to the view of that name."""
    SECONDS.labels(method if method in METHODS else "other", view, f"{status // 100}xx").observe(seconds)


def collect_into(registry: CollectorRegistry) -> None:
    """Add the counts of all web processes to `registry`."""
    MultiProcessCollector(registry, path=str(FOLDER))  # type: ignore[no-untyped-call] # of prometheus-client
