"""Reading pages are made once for each state of the board: kept compressed, and not sent to who has them."""

import gzip
import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import cache as once
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.cache import get_conditional_response, patch_vary_headers

from leaderboard.views.clients import CLIENT_CLOSED, ClientGone, require_client
from leaderboard.views.polling import SEEN, stamp_of

View = Callable[..., HttpResponse]
KEPT_SECONDS = 3600  # of a page nobody asks for: one of an older state never comes back
LEVEL = 5  # of compression: higher ones take twice as long for a hundredth less
PERSONAL = (settings.SESSION_COOKIE_NAME, CookieStorage.cookie_name)


def keep_page(
    shows_progress: bool = False, personal: bool = True, reads: Sequence[str] | None = ()
) -> Callable[[View], View]:
    """Decorate a view of what the board knows, which depends on nothing but its state and the address.

    The answer carries an ETag of both, and is taken from the cache where there is one. shows_progress: whether the page
    shows the progress of work. personal: whether who is signed in, or has a message to read, gets a page of their own.
    reads: the parameters that the page depends on; an address with others leads to the one without them. None: others
    are refused before it comes to this view.
    """
    own = PERSONAL if personal else ()

    def decorate(view: View) -> View:
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if settings.DEBUG or any(name in request.COOKIES for name in own) or SEEN in request.headers:
                return view(request, *args, **kwargs)
            stamp = stamp_of(request)
            key = key_of(request, "|".join(stamp) if shows_progress else stamp.kept)
            etag = f'W/"{key}"'
            not_modified = get_conditional_response(request, etag=etag)
            if not_modified:
                without_policy(not_modified)
            response = not_modified or kept_answer(key, request, lambda: view(request, *args, **kwargs))
            return label_response(response, etag, ("Cookie", "HX-Request") if personal else ())

        @wraps(view)
        def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if reads is not None and any(name not in reads for name in request.GET):
                return redirect(without_unknown(request, reads))
            try:
                return answer(request, *args, **kwargs)
            except ClientGone:
                return HttpResponse(status=CLIENT_CLOSED)  # for the log: nobody is there to read it

        return page

    return decorate


def without_unknown(request: HttpRequest, reads: Sequence[str]) -> str:
    """The address with what the page reads alone: no other parameter makes a page of its own."""
    pairs = [(name, value) for name, values in request.GET.lists() if name in reads for value in values]
    return f"{request.path}?{urlencode(pairs)}" if pairs else request.path


def key_of(request: HttpRequest, stamp: str) -> str:
    """What a page depends on: this code, the state of the board, the address, and which part htmx asks for."""
    parts = (code(), stamp, request.get_host(), str(request.scheme), request.get_full_path())
    htmx = [f"{name}={value}" for name, value in sorted(request.headers.items()) if name.lower().startswith("hx-")]
    return hashlib.sha256("\n".join((*parts, *htmx)).encode()).hexdigest()[:32]


@once
def code() -> str:
    """What makes the pages: as of the start of this process, the files of templates, styles and modules."""
    files = sorted(
        path
        for folder in ("leaderboard", "scoring", "templates", "static")
        for path in (settings.BASE_DIR / folder).rglob("*")
        if path.suffix in (".py", ".html", ".css", ".js", ".toml", ".csv", ".svg")
    )
    listing = "\n".join(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


def kept_answer(key: str, request: HttpRequest, make: Callable[[], HttpResponse]) -> HttpResponse:
    """The page from the cache, or made and put there; compressed where the reader's browser can take that."""
    entry = caches["pages"].get(key)
    if entry is None:
        require_client(request)
        answer = make()
        if answer.status_code != 200 or answer.streaming:
            return answer
        content = gzip.compress(answer.content, LEVEL, mtime=0)
        entry = {
            "headers": dict(answer.headers),
            "body": b64encode(content).decode(),
            "nonce": getattr(request, "_csp_nonce", None),
        }
        caches["pages"].set(key, entry, KEPT_SECONDS)
    request._csp_nonce = entry["nonce"]  # type: ignore[attr-defined] # of its scripts: the policy that is sent names it
    headers, body = entry["headers"], b64decode(entry["body"])
    if "gzip" not in request.headers.get("Accept-Encoding", ""):
        return HttpResponse(gzip.decompress(body), headers=headers)
    response = HttpResponse(body, headers=headers)
    response["Content-Encoding"] = "gzip"
    response["Content-Length"] = str(len(body))
    return response


def without_policy(response: HttpResponse) -> None:
    """Send no policy: the reader has the one that came with the page, and names the nonce of its scripts."""
    response._csp_exempt = response._csp_exempt_ro = True  # type: ignore[attr-defined] # as csp_exempt() does


def label_response(response: HttpResponse, etag: str, varies: Sequence[str]) -> HttpResponse:
    """Say what the answer is of, and that whoever keeps it asks again; `varies` names headers that it depends on."""
    if response.status_code in (200, 304):
        response["ETag"] = etag
        response["Cache-Control"] = "no-cache"
        patch_vary_headers(response, ("Accept-Encoding", *varies))
    return response
