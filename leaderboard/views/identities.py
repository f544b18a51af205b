"""The page of a model: what papers, HELM and this board have of it, side by side."""

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.models import ModelIdentity
from leaderboard.queries.identities import collect_evidence, list_visible_entries
from leaderboard.queries.side_by_side import MOST


def identity_page(request: HttpRequest, identity: ModelIdentity) -> HttpResponse:
    """What is known of a model. Raises Http404 where none of its entries may be shown."""
    entries = list_visible_entries(identity)
    if not entries:
        raise Http404(f"There is nothing about {identity.slug} on this board.")
    names = dict.fromkeys([*identity.aliases, *(entry.source_name for entry in entries if entry.source_name)])
    context = {
        "identity": identity,
        "kinds": dict.fromkeys(entry.get_kind_display() for entry in entries),
        "aliases": [name for name in names if name != identity.name],
        "entries": entries,
        "tables": collect_evidence(entries),
        "compare": urlencode([("m", entry.slug) for entry in entries[:MOST]]),
    }
    return render(request, "identity.html", context)
