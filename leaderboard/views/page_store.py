"""Pages that were made already: the last one of each address, with the state of the board that it shows."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from csp.constants import HEADER, HEADER_REPORT_ONLY
from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.utils.http import parse_etags
from django.utils.module_loading import import_string

from leaderboard.queries.stamp import Stamp
from leaderboard.state_memo import StateMemo, name_reading

KEPT_SECONDS = 3600
MOST_READY = 100  # pages in the memory of a process, of 40 kB each: those that were asked for last need no file
LEVEL = 5  # of compression: higher ones take twice as long for a hundredth less
POLICIES = (HEADER, HEADER_REPORT_ONLY)
# What adds headers to every answer. A page is kept with them, as it may be sent without passing them.
HEADER_MIDDLEWARE = (
    "django.middleware.security.SecurityMiddleware",
    "leaderboard.middleware.ContentPolicy",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
)


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A page as it is sent: all its headers, and its body compressed. view: the name of its address."""

    stamp: str
    etag: str
    shows_progress: bool
    view: str
    headers: dict[str, str]
    body: bytes

    def shows(self, stamp: Stamp) -> bool:
        """Whether it is of this state of the board."""
        return self.stamp == stamp_text(stamp, self.shows_progress)

    def answer(self, meta: Mapping[str, Any]) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a request with these variables; 304 to who has the page."""
        if any(tag == "*" or tag.removeprefix("W/") == self.etag[2:] for tag in asked_tags(meta)):
            # Without a policy: the reader has the one that came with the page, and names the nonce of its scripts.
            page_headers = (*POLICIES, "HX-Push-Url")
            headers = {name: value for name, value in self.headers.items() if name not in page_headers}
            return 304, {name: value for name, value in headers.items() if not name.startswith("Content-")}, b""
        if "gzip" in meta.get("HTTP_ACCEPT_ENCODING", ""):
            return 200, {**self.headers, "Content-Encoding": "gzip", "Content-Length": str(len(self.body))}, self.body
        body = gzip.decompress(self.body)
        return 200, {**self.headers, "Content-Length": str(len(body))}, body


def asked_tags(meta: Mapping[str, Any]) -> list[str]:
    """The names of what a reader has."""
    return parse_etags(meta["HTTP_IF_NONE_MATCH"]) if "HTTP_IF_NONE_MATCH" in meta else []


def stamp_text(stamp: Stamp, shows_progress: bool) -> str:
    """What a page depends on of the board's state."""
    return f"{stamp.kept}|{stamp.moving}" if shows_progress else stamp.kept


def name_page(request: HttpRequest) -> str:
    """What else a page depends on: what makes it, the address, and which part htmx asks for."""
    parts = (digest_makers(), request.get_host(), str(request.scheme), request.get_full_path())
    htmx = [f"{name}={value}" for name, value in sorted(request.META.items()) if name.startswith("HTTP_HX_")]
    return hashlib.sha256("\n".join((*parts, *htmx)).encode()).hexdigest()[:32]


@cache
def digest_makers() -> str:
    """What makes the pages, as of the start of this process: files of templates, styles and modules, and settings."""
    files = sorted(
        path
        for folder in ("leaderboard", "scoring", "templates", "static")
        for path in (settings.BASE_DIR / folder).rglob("*")
        if path.suffix in (".py", ".html", ".css", ".js", ".toml", ".csv", ".svg")
    )
    listing = "\n".join(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in files)
    return hashlib.sha256(f"{settings.DIGEST}\n{listing}".encode()).hexdigest()[:16]


def read_page(name: str) -> KeptPage | None:
    """The last page of that name."""
    entry = caches["pages"].get(f"page-{name}")
    return KeptPage(**entry) if entry else None


ready_pages = StateMemo(MOST_READY)


def read_ready(name: str, stamp: Stamp) -> KeptPage | None:
    """The page of that name, where it shows this state of the board: from the memory of this process, or the store."""
    reading = name_reading(stamp_text(stamp, shows_progress=True))
    kept_page = ready_pages.read(reading, name)
    if isinstance(kept_page, KeptPage):
        return kept_page
    page = read_page(name)
    if page is None or not page.shows(stamp):
        return None
    ready_pages.keep(reading, name, page)
    return page


def keep_answer(name: str, request: HttpRequest, answer: HttpResponse, stamp: str, shows_progress: bool) -> KeptPage:
    """Keep an answer with the headers that every answer gets, and its scripts' nonce in them."""
    for middleware in header_middleware():
        answer = middleware.process_response(request, answer)
    match = request.resolver_match
    page = KeptPage(
        stamp=stamp,
        etag=name_state(name, stamp),
        shows_progress=shows_progress,
        view=(match and match.view_name) or "unnamed",
        headers={**answer.headers, "ETag": name_state(name, stamp), "Cache-Control": "no-cache"},
        body=gzip.compress(answer.content, LEVEL, mtime=0),
    )
    caches["pages"].set(f"page-{name}", asdict(page), KEPT_SECONDS)
    return page


def name_state(name: str, stamp: str) -> str:
    """The ETag of a page of that name in that state of the board."""
    return f'W/"{hashlib.sha256(f"{name} {stamp}".encode()).hexdigest()[:32]}"'


@cache
def header_middleware() -> list[Any]:
    """What adds headers to every answer, ready to do so."""
    return [import_string(path)(lambda _request: HttpResponse()) for path in HEADER_MIDDLEWARE]
