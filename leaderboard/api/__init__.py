"""The API: what the board knows, for programs, and submitting to it. One file a resource."""

from ninja import NinjaAPI

from leaderboard.api import problems, submissions

api = NinjaAPI(title="Plumbline", version="1", urls_namespace="api", docs_url=None)
problems.handle(api)
for resource in (submissions,):
    api.add_router("", resource.router)
