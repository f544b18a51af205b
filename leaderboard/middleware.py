"""What every request passes: an id for its log lines and its answer, a clock, a limit, and a look at its parameters."""

import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import uuid4

import structlog
from csp.constants import HEADER as POLICY
from csp.constants import SELF
from csp.middleware import CSPMiddleware, PolicyParts
from django.conf import settings
from django.core.cache import caches
from django.core.exceptions import TooManyFieldsSent
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django_structlog.middlewares import RequestMiddleware

from leaderboard.api import front
from leaderboard.counting import client_address, count_request
from leaderboard.operations.monitoring.requests import observe
from leaderboard.rankings.days import MOST_SHOWN

HEADER = "X-Request-ID"
WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")

Answer = Callable[[HttpRequest], HttpResponseBase]

log = structlog.get_logger(__name__)


class RequestLog(RequestMiddleware):
    """Takes the id from X-Request-ID where it is well-formed, else makes one; logs the end of each request.

    Exceptions are logged by the class that it extends. Neither addresses of visitors nor their names are logged.
    """

    def prepare(self, request: HttpRequest) -> None:
        structlog.contextvars.clear_contextvars()
        request.id = choose_id(request.headers.get(HEADER, ""))  # type: ignore[attr-defined]
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
            log_request(level, response[HEADER], response.status_code, self.format_request(request), seconds)
        # The id stays until the next request: Django logs a 404 after this.

    @staticmethod
    def format_request(request: Any) -> str:
        """Without the query: it may hold what somebody searched for, or a key."""
        return f"{request.method} {request.path}"


def choose_id(request_id: str) -> str:
    """The id that a request came with, where it is well-formed; else a new one."""
    return request_id if WELL_FORMED.fullmatch(request_id) else uuid4().hex


def log_request(level: int, request_id: str, code: int, line: str, seconds: float) -> None:
    """Log the end of a request."""
    duration = round(1000 * seconds)
    log.log(level, "request_finished", request_id=request_id, code=code, request=line, duration_ms=duration)


class ContentPolicy(CSPMiddleware):
    """The Content-Security-Policy of the settings on every answer; Django's admin runs files of the site in its place.

    An answer that has a policy of its own keeps that, as a frame does.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Add the policy, enforced or only reported."""
        return response if POLICY in response else super().process_response(request, response)

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        """As in the settings; the admin's templates are Django's, and give their scripts no nonce."""
        parts = super().get_policy_parts(request, response, report_only)
        if request.path_info.startswith(reverse("admin:index")):
            parts.replace = {"script-src": [SELF]}
        return parts


def limit_visits(get_response: Answer) -> Answer:
    """Middleware: REQUESTS_A_MINUTE from one address, whatever they are for, before anything else is done for them."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        most = settings.REQUESTS_A_MINUTE
        seconds = most and count_request(caches["visits"], client_address(request), most)
        if not seconds:
            return get_response(request)
        if request.path_info.startswith(front.ROOT):
            return front.readable_anywhere(front.too_many(seconds))
        return HttpResponse(too_many_page(), status=429, headers={"Retry-After": str(seconds)})

    return answer


@cache
def too_many_page() -> str:
    """What a person reads who asks too often. Rendered once: it has to cost less than what is refused."""
    return render_to_string("429.html", {"visits": True})


def refuse_many_parameters(get_response: Answer) -> Answer:
    """Middleware: an address with more parameters than DATA_UPLOAD_MAX_NUMBER_FIELDS gets an answer that reads none.

    Whatever reads them would fail, and so would the page that tells of that.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        try:
            len(request.GET)
        except TooManyFieldsSent:
            if request.path_info.startswith(front.ROOT):
                return front.readable_anywhere(front.many_parameters())
            return HttpResponse(many_parameters_page(), status=400)
        return get_response(request)

    return answer


@cache
def many_parameters_page() -> str:
    """What a person reads whose address has too many parameters."""
    return render_to_string("400.html", {"problem": " ".join(front.MANY_PARAMETERS)})


def refuse_nul(get_response: Answer) -> Answer:
    """Middleware: no parameter of a page holds a NUL character, as PostgreSQL fails on one in any query.

    The API describes its parameters, and refuses one itself.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        for name, values in () if request.path_info.startswith(front.ROOT) else request.GET.lists():
            if any("\0" in text for text in (name, *values)):
                problem = f"{name.replace(chr(0), '')[:MOST_SHOWN]}: it contains a NUL character. Leave that out."
                return render(request, "400.html", {"problem": problem}, status=400)
        return get_response(request)

    return answer
