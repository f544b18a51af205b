"""The addresses of the site, with an example of what each leads to."""

import re
from itertools import chain

from django.urls import URLResolver, get_resolver

from tests.leaderboard.conftest import CAUSAL

METRIC = "safety-starter"
EXAMPLES = {"pk": "1", "number": "1", "step": "retry", "kind": "run"}
TABLES = ("user", "languagemodel", "auditevent", "standing", "submission")


def routes(patterns, prefix: str = "") -> list[str]:
    """The routes of the site that are no regular expressions, as Django writes them; none of the admin's tables."""
    collected: list[str] = []
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if "^" in route or (route.count("/") > 2 and route.startswith("admin/")):
            continue
        collected += routes(pattern.url_patterns, route) if isinstance(pattern, URLResolver) else [route]
    return collected


def address(route: str, model: str, metric: str) -> str:
    """A route with an example in each of its places."""
    examples = EXAMPLES | {"slug": model, "model": model, "metric": metric}
    examples |= {"slug": metric} if "metrics/" in route or "feeds/" in route else {}
    examples |= {"name": "regard_scores"} if route.startswith("published/") else {}
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda place: examples.get(place[1], "x"), route)


def addresses(model: str = CAUSAL, metric: str = METRIC) -> list[str]:
    """One of each route but those that log out, some tables of the admin, and exports of two pages.

    model, metric: the slugs of the examples.
    """
    pages = (address(route, model, metric) for route in routes(get_resolver().url_patterns) if "logout" not in route)
    tables = (f"/admin/{'auth' if table == 'user' else 'leaderboard'}/{table}/" for table in TABLES)
    exports = (f"/rankings.{form}" for form in ("csv", "json", "latex", "markdown"))
    files = (f"/agreement/{name}.csv" for name in ("correlations", "sizes", "models"))
    return sorted({*chain(pages, tables, exports, files)})
