"""What a page that polls needs to know: whether anything still moves, and whether its reader has the newest numbers."""

import hashlib

from django.http import HttpRequest

from leaderboard.queries.stamp import Stamp, board_stamp

SEEN = "Plumbline-Seen"
STILL = {"moving": False, "seen": "", "fresh": True}  # of a page about the past


def stamp_of(request: HttpRequest) -> Stamp:
    """The state of the board as this request began; asked for once."""
    found: Stamp | None = getattr(request, "board_stamp", None)
    if found is None:
        found = board_stamp()
        request.board_stamp = found  # type: ignore[attr-defined]
    return found


def polling(request: HttpRequest, moving: bool) -> dict[str, object]:
    """Context for `partials/polled.html`: `moving`, `seen`, and `fresh` (whether to send the tables)."""
    seen = hashlib.sha256(stamp_of(request).kept.encode()).hexdigest()[:12]
    return {"moving": moving, "seen": seen, "fresh": request.headers.get(SEEN) != seen}
