"""The API: what the board knows, for programs, and submitting to it. A file a resource; `front` is before them all."""

from ninja import NinjaAPI

from leaderboard.api import (
    agreement,
    artefacts,
    checks,
    language_models,
    metrics,
    problems,
    rank_changes,
    results,
    scorers,
    standings,
    submissions,
)
from leaderboard.views.keeping import keep_page

DESCRIPTION = """What a Plumbline board knows, as JSON: models, metrics and their versions, rankings now and then, every
number, what changed between versions, the scorers with their report cards and checks, and the files behind it all.
Reading needs no account.
"""

api = NinjaAPI(
    title="Plumbline",
    version="1",
    description=" ".join(DESCRIPTION.split()),
    urls_namespace="api",
    docs_url=None,  # the page at /api/ is ours: it needs no script
    docs_decorator=keep_page(personal=False),  # of the description
)
problems.handle(api)
for resource in (
    *(language_models, metrics, standings, rank_changes, agreement, results, scorers, checks, artefacts, submissions),
):
    api.add_router("", resource.router)
