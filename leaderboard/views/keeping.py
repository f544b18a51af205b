"""Reading pages are made once for each state of the board, by one maker, and not sent to who has them."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, wraps
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.messages.storage.cookie import CookieStorage
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers

from leaderboard.state_memo import share_reading
from leaderboard.views.clients import CLIENT_CLOSED, ClientGone, require_client
from leaderboard.views.line import BoardBusy, WaitingLine, sole_maker
from leaderboard.views.page_store import KeptPage, keep_answer, name_page, read_page, stamp_text
from leaderboard.views.polling import SEEN, stamp_of

View = Callable[..., HttpResponse]
PERSONAL = (settings.SESSION_COOKIE_NAME, CookieStorage.cookie_name)
RETRY_SECONDS = 3  # after which a line that was full has passed
WAY_SECONDS = 0.25  # of the time that a reader waits: for the way here and back, in a process with much to do


@cache
def line() -> WaitingLine:
    """The line of this process."""
    return WaitingLine(settings.PAGE_MAKERS, settings.PAGE_LINE)


def keep_page(
    shows_progress: bool = False, personal: bool = True, reads: Sequence[str] | None = ()
) -> Callable[[View], View]:
    """Decorate a view of what the board knows, which depends on nothing but its state and the address.

    The answer carries an ETag of both, and is taken from the store where it is there. Else one maker makes it; others
    get the last page of that address meanwhile, or wait where there is none. Whoever would wait too long gets the last
    page, or a 503.
    shows_progress: whether the page shows the progress of work. personal: whether who is signed in, or has a message
    to read, gets a page of their own. reads: the parameters that the page depends on; an address with others leads to
    the one without them. None: others are refused before it comes to this view.
    """
    own = PERSONAL if personal else ()
    varies = ("Accept-Encoding", "Cookie", "HX-Request") if personal else ("Accept-Encoding",)

    def decorate(view: View) -> View:
        def answer(request: HttpRequest, make: Callable[[], HttpResponse]) -> HttpResponse:
            if settings.DEBUG:
                return make()
            deadline = time.monotonic() + max(0.0, settings.PAGE_WAIT_SECONDS - WAY_SECONDS)
            if any(name in request.COOKIES for name in own) or SEEN in request.headers:
                with line().take_seat(), line().take_turn(request, view, deadline):
                    return make()  # however long that takes: it is kept for nobody
            name, stamp = name_page(request), stamp_text(stamp_of(request), shows_progress)
            page = read_page(name)
            if page and page.stamp == stamp:
                return send_page(page, request)
            require_client(request)
            try:
                return make_once(request, make, name, stamp, deadline, patience=0.0 if page else deadline)
            except BoardBusy:
                if page is None:
                    raise
                return send_page(page, request)

        def make_once(
            request: HttpRequest,
            make: Callable[[], HttpResponse],
            name: str,
            stamp: str,
            deadline: float,
            patience: float,  # until when to wait for another maker
        ) -> HttpResponse:
            def is_ready() -> bool:
                page = read_page(name)
                return page is not None and page.stamp == stamp

            def make_and_keep() -> HttpResponse:
                with share_reading(stamp_of(request).kept):
                    response = make()
                if response.status_code != 200 or response.streaming:
                    return response
                patch_vary_headers(response, varies)
                return send_page(keep_answer(name, request, response, stamp, shows_progress), request)

            latest_start = line().latest_start(view, deadline)
            with ExitStack() as place:
                place.enter_context(line().take_seat())
                is_maker = place.enter_context(sole_maker(name, is_ready, patience, latest_start))
                if not is_maker and (page := read_page(name)):
                    return send_page(page, request)
                place.enter_context(line().take_turn(request, view, deadline))
                str(request.csp_nonce)  # type: ignore[attr-defined] # now: the page may be made after the request's end
                return line().make(make_and_keep, place.pop_all(), deadline)

        @wraps(view)
        def page_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if reads is not None and any(name not in reads for name in request.GET):
                return redirect(without_unknown(request, reads))
            try:
                return answer(request, lambda: view(request, *args, **kwargs))
            except ClientGone:
                return HttpResponse(status=CLIENT_CLOSED)  # for the log: nobody is there to read it
            except BoardBusy:
                return refuse_for_now()

        return page_view

    return decorate


def send_page(page: KeptPage, request: HttpRequest) -> HttpResponse:
    """A kept page as the answer to a request."""
    status, headers, body = page.answer(request.META)
    response = HttpResponse(body, status=status, headers=headers)
    response.xframe_options_exempt = True  # the kept headers say who may frame it
    if status == 304:
        del response["Content-Type"]  # which Django adds
        response._csp_exempt = response._csp_exempt_ro = True  # type: ignore[attr-defined] # as csp_exempt() does
    return response


def refuse_for_now() -> HttpResponse:
    """The answer to who would wait too long."""
    response = HttpResponse(busy_page(), status=503, headers={"Retry-After": str(RETRY_SECONDS)})
    response._has_been_logged = True  # type: ignore[attr-defined] # the log of requests tells it, and nothing is broken
    return response


@cache
def busy_page() -> str:
    """What a person reads who comes to a full line. Rendered once: it has to cost less than a page."""
    return render_to_string("503.html")


def without_unknown(request: HttpRequest, reads: Sequence[str]) -> str:
    """The address with what the page reads alone: no other parameter makes a page of its own."""
    pairs = [(name, value) for name, values in request.GET.lists() if name in reads for value in values]
    return f"{request.path}?{urlencode(pairs)}" if pairs else request.path
