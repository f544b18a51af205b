"""The audit trail, for operators."""

from datetime import date

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.queries.audit import BOARD, Wanted, audit_page, known_verbs
from leaderboard.views.asking import page
from leaderboard.views.parameters import page_number, pick


@page
def audit(request: HttpRequest) -> HttpResponse:
    """Events by `actor`, `verb`, object (`q`) and days (`since`, `until`), the newest first, `page` by page."""
    verbs = known_verbs()
    wanted = Wanted(
        actor=text(request, "actor"),
        verb=pick(request, "verb", "", ["", *verbs]),
        about=text(request, "q"),
        since=day(request, "since"),
        until=day(request, "until"),
    )
    found, events = audit_page(wanted, page_number(request))
    context = {"wanted": wanted, "verbs": verbs, "page": found, "events": events, "board": BOARD}
    return render(request, "operate/audit.html", context)


def text(request: HttpRequest, name: str) -> str:
    """Words of the address."""
    return " ".join(request.GET.get(name, "").replace("\0", "").split())[:100]


def day(request: HttpRequest, name: str) -> date | None:
    """A day of the address. Raises Http404 where it is none."""
    value = request.GET.get(name, "")
    try:
        return date.fromisoformat(value) if value else None
    except ValueError as error:
        raise Http404(f"{name} = {value!r}: use a day as in 2026-11-21") from error
