"""Atom feeds: what is news. Ids are addresses that stay, and no text of an evaluation set or of a model is in them."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.syndication.views import Feed
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.views.decorators.http import require_safe

from leaderboard.models import LanguageModel, Metric
from leaderboard.queries.news import Drift, NewEntry, Publication, drifts, new_models, rank_changes
from leaderboard.views.keeping import View, keep_page
from leaderboard.xml import sayable


class Atom(Atom1Feed):
    """Atom that is well-formed whatever is said in it, and not dated where it is empty."""

    def add_item(  # type: ignore[override] # Feed gives each by name
        self, title: str, link: str, description: str, **more: Any
    ) -> None:
        super().add_item(sayable(title), link, sayable(description), **more)

    def latest_post_date(self) -> datetime:
        """When the newest item was written; long ago where there is none, or the feed would change by itself."""
        return super().latest_post_date() if self.items else datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class BoardFeed(Feed):
    """What the feeds have in common."""

    feed_type = Atom
    author_name = "Plumbline"
    item_guid_is_permalink = True
    about = ""

    def get_object(self, request: HttpRequest, slug: str = "") -> Metric | None:
        """The metric that the feed is of; None: of all. Raises Http404."""
        if not slug:
            return None
        metric = Metric.objects.filter(slug=slug).first()
        if metric is None:
            slugs = ", ".join(Metric.objects.values_list("slug", flat=True)) or "none yet"
            raise Http404(f"metric = {slug!r} does not exist here. Known: {slugs}")
        return metric

    def title(self, metric: Metric | None) -> str:
        return f"Plumbline: {self.about}, {metric.title}" if metric else f"Plumbline: {self.about}"

    def item_pubdate(self, item: Any) -> datetime:
        moment: datetime = item.at
        return moment

    def item_updateddate(self, item: Any) -> datetime:
        """Nothing of an item changes."""
        return self.item_pubdate(item)


class RankChangesFeed(BoardFeed):
    """Versions that took over from others, and models that were ranked for the first time."""

    about = "rank changes"
    subtitle = "What moved ranks: new metric versions with the ranks they changed, and new entries."
    description_template = "feeds/rank_change.html"

    def link(self, metric: Metric | None) -> str:
        return metric.ranking_url if metric else reverse("history")

    def items(self, metric: Metric | None) -> list[Publication | NewEntry]:
        return rank_changes(metric)

    def item_title(self, item: Publication | NewEntry) -> str:
        if isinstance(item, NewEntry):
            return f"{item.metric.title}: {item.name} is ranked"
        return (
            f"{item.metric.title}: {item.changed} of {item.models} ranks changed, "
            f"version {item.before.number} to {item.after.number}"
        )

    def item_link(self, item: Publication | NewEntry) -> str:
        if isinstance(item, NewEntry):
            query = urlencode({"metric": item.metric.slug, "version": item.version})
            return f"{reverse('model', args=[item.slug])}?{query}"
        return f"{reverse('history')}?{urlencode(self._name_page(item))}"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """What the words of an item are made of; picture: the address of its bump chart, where it has one."""
        context, item = super().get_context_data(**kwargs), kwargs["item"]
        if isinstance(item, Publication):
            query_parameters = self._name_page(item) | {"chart": f"{item.metric.slug}-history", "format": "png"}
            context["picture"] = f"{settings.SITE_URL}{reverse('history')}?{urlencode(query_parameters)}"
        return context

    @staticmethod
    def _name_page(item: Publication) -> dict[str, str | int]:
        return {"metric": item.metric.slug, "from": item.before.number, "to": item.after.number}


class NewModelsFeed(BoardFeed):
    """Models that were entered."""

    about = "new models"
    subtitle = "Language models that were entered on this board."
    description_template = "feeds/model.html"

    def link(self, metric: Metric | None) -> str:
        return reverse("rankings")

    def items(self, metric: Metric | None) -> list[LanguageModel]:
        return new_models()

    def item_title(self, item: LanguageModel) -> str:
        return item.name

    def item_pubdate(self, item: LanguageModel) -> datetime:
        return item.created_at


class DriftFeed(BoardFeed):
    """Scorers that were found to have changed."""

    about = "drift"
    subtitle = "Scorers that no longer score frozen texts as they did, and what was done about it."
    description_template = "feeds/drift.html"

    def link(self, metric: Metric | None) -> str:
        return reverse("drift") + (f"?metric={metric.slug}" if metric else "")

    def items(self, metric: Metric | None) -> list[Drift]:
        return drifts(metric)

    def item_title(self, item: Drift) -> str:
        return f"{item.title}: the scorer has drifted"

    def item_link(self, item: Drift) -> str:
        return f"{reverse('drift')}?{urlencode({'metric': item.slug, 'check': item.check})}"


def feed_view(feed: BoardFeed) -> View:
    """A feed as a view that makes it once for each state of the board."""

    def view(*args: Any, **kwargs: Any) -> HttpResponse:
        return feed(*args, **kwargs)

    return require_safe(keep_page(personal=False)(view))


new_models_feed = feed_view(NewModelsFeed())
rank_changes_feed = feed_view(RankChangesFeed())
drift_feed = feed_view(DriftFeed())
