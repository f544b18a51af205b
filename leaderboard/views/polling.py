"""What a page that polls needs to know: whether anything still moves, and whether its reader has the newest numbers."""

import hashlib

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.queries.shared_stamp import latest_stamp
from leaderboard.queries.stamp import Stamp

SEEN = "Plumbline-Seen"
STILL = {"moving": False, "seen": "", "fresh": True}  # of a page about the past


def stamp_of(request: HttpRequest) -> Stamp:
    """The state of the board as this request began, or shortly before; asked for once."""
    stamp: Stamp | None = getattr(request, "board_stamp", None)
    if stamp is None:
        stamp = latest_stamp()
        request.board_stamp = stamp  # type: ignore[attr-defined]
    return stamp


def describe_polling(request: HttpRequest, is_moving: bool) -> dict[str, object]:
    """Context for `partials/polling.html`: `moving`, `seen`, and `fresh` (whether to send the tables)."""
    seen_state = hashlib.sha256(stamp_of(request).kept.encode()).hexdigest()[:12]
    return {"moving": is_moving, "seen": seen_state, "fresh": request.headers.get(SEEN) != seen_state}


def render_polled(request: HttpRequest, template: str, context: dict[str, object]) -> HttpResponse:
    """The page; to a page that asks again only its part called `polled`."""
    return render(request, f"{template}#polled" if SEEN in request.headers else template, context)
