"""The audit trail, for operators."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.operations.queries.audit import BOARD, AuditSearch, audit_page, known_verbs
from leaderboard.views.confirmation import page
from leaderboard.views.parameters import page_number, pick, read_day, read_words


@page
def audit(request: HttpRequest) -> HttpResponse:
    """List events by `actor`, `verb`, object (`q`) and days (`since`, `until`), newest first, `page` by page."""
    verbs = known_verbs()
    search = AuditSearch(
        actor=read_words(request, "actor"),
        verb=pick(request, "verb", "", ["", *verbs]),
        about=read_words(request, "q"),
        since=read_day(request, "since"),
        until=read_day(request, "until"),
    )
    event_page, events = audit_page(search, page_number(request))
    context = {"wanted": search, "verbs": verbs, "page": event_page, "events": events, "board": BOARD}
    return render(request, "operate/audit.html", context)
