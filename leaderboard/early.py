"""Pages that are ready are answered before Django: without a query, a session, or any of its middleware.

All that a page passes on its way through Django was done when it was made, or is done here: the limit of visits, the
request's id, its log line and its share in the metrics. Whatever else is asked for goes on to Django.
"""

import logging
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.core.exceptions import DisallowedHost
from django.core.handlers.wsgi import WSGIRequest

from leaderboard.api import front
from leaderboard.counting import client_address, count_request
from leaderboard.middleware import HEADER, choose_id, log_request
from leaderboard.operations.monitoring.requests import observe_view
from leaderboard.queries.shared_stamp import glance_at_stamp
from leaderboard.views.keeping import PERSONAL
from leaderboard.views.page_store import KeptPage, name_page, read_ready
from leaderboard.views.polling import SEEN

METHODS = ("GET", "HEAD")
POLLING = "HTTP_" + SEEN.upper().replace("-", "_")
REASONS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def answer_early(application: Application) -> Application:
    """Wrap the site's application: pages that are ready come from the store, all else from it."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        began = time.monotonic()
        request = WSGIRequest(environ.copy())  # it decodes the address in place, and Django does so again
        page = find_page(request)
        if page is None:
            return application(environ, start_response)
        status, headers, body = page.answer(environ)
        request_id = choose_id(environ.get("HTTP_X_REQUEST_ID", ""))
        start_response(REASONS[status], [*headers.items(), (HEADER, request_id)])
        seconds, method = time.monotonic() - began, environ["REQUEST_METHOD"]
        observe_view(page.view, method, status, seconds)
        log_request(logging.INFO, request_id, status, f"{method} {request.path}", seconds)
        return [b"" if method == "HEAD" else body]

    return answer


def find_page(request: WSGIRequest) -> KeptPage | None:
    """The page of a request, where it is ready and the request is one of a reader like all others."""
    environ = request.META
    if environ["REQUEST_METHOD"] not in METHODS or POLLING in environ or settings.DEBUG:
        return None
    cookies = environ.get("HTTP_COOKIE", "")
    if any(name in cookies for name in PERSONAL) or environ["PATH_INFO"].startswith(front.ROOT):
        return None
    stamp = glance_at_stamp()
    if stamp is None:
        return None
    try:
        page = read_ready(name_page(request), stamp)
    except DisallowedHost:
        return None
    if page is None:
        return None
    most = settings.REQUESTS_A_MINUTE
    if most and count_request(caches["visits"], client_address(request), most):
        return None  # Django counts it again, and refuses it
    return page
