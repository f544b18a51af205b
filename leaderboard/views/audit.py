"""The audit trail, for operators."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.queries.audit import BOARD, Wanted, audit_page, known_verbs
from leaderboard.views.asking import page
from leaderboard.views.parameters import page_number, pick, read_day, read_words


@page
def audit(request: HttpRequest) -> HttpResponse:
    """Events by `actor`, `verb`, object (`q`) and days (`since`, `until`), the newest first, `page` by page."""
    verbs = known_verbs()
    wanted = Wanted(
        actor=read_words(request, "actor"),
        verb=pick(request, "verb", "", ["", *verbs]),
        about=read_words(request, "q"),
        since=read_day(request, "since"),
        until=read_day(request, "until"),
    )
    found, events = audit_page(wanted, page_number(request))
    context = {"wanted": wanted, "verbs": verbs, "page": found, "events": events, "board": BOARD}
    return render(request, "operate/audit.html", context)
