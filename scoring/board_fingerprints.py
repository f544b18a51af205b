"""What scorer a board publishes its numbers with, asked of the board's API."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import httpx

from scoring.refusals import Refused

TIMEOUT = 30.0  # seconds
MOST_PAGES = 100


class NoBoard(Refused):
    """What answers at an address is no board; the message says what it does instead."""


def read_fingerprints(board: str, scorer: str, client: httpx.Client | None = None) -> dict[str, str]:
    """The fingerprint of `scorer` under each current metric version that asks it, by METRIC@VERSION.

    board: the address of its front page. Raises NoBoard, naming the address, where it does not answer as a board does.
    """
    api = f"{board.rstrip('/')}/api/v1/metrics"
    with nullcontext(client) if client else httpx.Client(timeout=TIMEOUT, follow_redirects=True) as session:
        try:
            slugs = [metric["slug"] for metric in _read_items(session, api) if metric["scorer"] == scorer]
            versions = [
                version
                for slug in slugs
                for version in _read_items(session, f"{api}/{slug}/versions?status=current&provenance=measured")
            ]
            fingerprints = {f"{one['metric']}@{one['version']}": one["scorer_fingerprint"] for one in versions}
        except (LookupError, TypeError) as error:
            raise NoBoard.of_value("board", api, f"no board answers there ({error!r})") from error
    return fingerprints


def _read_items(session: httpx.Client, address: str) -> Iterator[dict[str, Any]]:
    """The items of a list of the API, page by page."""
    next_address = address
    for _ in range(MOST_PAGES):
        try:
            response = session.get(next_address)
            response.raise_for_status()
            content = response.json()
            yield from content["items"]
            next_address = content["next"]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError) as error:
            raise NoBoard.of_value("board", next_address, f"no board answers there ({error})") from error
        if next_address is None:
            return
    raise NoBoard.of_value("board", address, f"its list has more than {MOST_PAGES} pages: ask another address")
