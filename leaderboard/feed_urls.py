"""Feeds: of the whole board, and of one metric."""

from django.contrib.syndication.views import Feed
from django.http import HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from leaderboard.feeds import DriftFeed, NewModelsFeed, RankChangesFeed
from leaderboard.views.keeping import View, kept


def served(feed: Feed) -> View:
    """A feed as a view that makes it once for each state of the board."""

    def view(*args: object, **kwargs: object) -> HttpResponse:
        return feed(*args, **kwargs)

    return require_safe(kept(personal=False)(view))


urlpatterns: list[URLPattern] = [path("models.atom", served(NewModelsFeed()), name="feed-models")]
for name, feed in (("rank-changes", RankChangesFeed()), ("drift", DriftFeed())):
    urlpatterns += [
        path(f"{name}.atom", served(feed), name=f"feed-{name}"),
        path(f"{name}/<slug:slug>.atom", served(feed), name=f"feed-{name}-of"),
    ]
