"""Every request has an id, which stands in its log lines and its answer, and is timed."""

import re
import time
from typing import Any
from uuid import uuid4

import structlog
from django.http import HttpRequest, HttpResponse
from django_structlog.middlewares import RequestMiddleware

from leaderboard.monitoring.requests import observe

HEADER = "X-Request-ID"
WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")

log = structlog.get_logger(__name__)


class RequestLog(RequestMiddleware):
    """Takes the id from X-Request-ID where it is well-formed, else makes one; logs the end of each request.

    Exceptions are logged by the class that it extends. Neither addresses of visitors nor their names are logged.
    """

    def prepare(self, request: HttpRequest) -> None:
        given = request.headers.get(HEADER, "")
        structlog.contextvars.clear_contextvars()
        request.id = given if WELL_FORMED.fullmatch(given) else uuid4().hex  # type: ignore[attr-defined]
        request.began = time.monotonic()  # type: ignore[attr-defined]
        structlog.contextvars.bind_contextvars(request_id=request.id)  # type: ignore[attr-defined]

    def handle_response(self, request: HttpRequest, response: HttpResponse) -> None:
        response[HEADER] = request.id  # type: ignore[attr-defined]
        seconds = time.monotonic() - request.began  # type: ignore[attr-defined]
        observe(request, response.status_code, seconds)
        if hasattr(request, "_raised_exception"):
            del request._raised_exception
        else:
            level = self._log_level_for_status_code(response.status_code)
            said = {"code": response.status_code, "request": self.format_request(request)}
            log.log(level, "request_finished", **said, duration_ms=round(1000 * seconds))
        # The id stays until the next request: Django logs a 404 after this.

    @staticmethod
    def format_request(request: Any) -> str:
        """Without the query: it may hold what somebody searched for, or a key."""
        return f"{request.method} {request.path}"
