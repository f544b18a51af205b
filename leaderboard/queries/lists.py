"""Lists of what people look for: every model, and every metric with the state of its scorer."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Lower, NullIf

from leaderboard.models import LanguageModel, Metric, Scoring, Work, is_listed, ranked_now
from leaderboard.queries.drift import WatchedScorer, list_watched_scorers
from leaderboard.rankings.versions import current_versions, metrics_with_versions, published_versions
from leaderboard.rankings.view import SIZES, in_band

SORTS = {
    "name": (Lower("title").asc(), F("first").asc()),
    "-parameters": (F("size").desc(nulls_last=True), Lower("title").asc(), F("first").asc()),
    "parameters": (F("size").asc(nulls_last=True), Lower("title").asc(), F("first").asc()),
    "-metrics": (F("metric_count").desc(), Lower("title").asc(), F("first").asc()),
    "-entered": (F("entered").desc(), F("first").desc()),
}


@dataclass(frozen=True, slots=True)
class ModelFilters:
    """What a list of models is narrowed to; empty ones let all pass. size: a key of SIZES, or UNKNOWN."""

    q: str = ""
    family: str = ""
    kind: str = ""
    source: str = ""
    size: str = ""

    @property
    def condition(self) -> Q:
        """The condition on models."""
        exact = {"family": self.family, "kind": self.kind, "source": self.source}
        condition = Q(**{name: value for name, value in exact.items() if value})
        return condition & self.words_condition & in_band("parameters", SIZES, self.size)

    @property
    def words_condition(self) -> Q:
        """Each word of `q` is in what an entry, its source or its model is called."""
        condition = Q()
        for word in self.q.split():
            columns = ("name", "family", "slug", "source_name", "identity__name", "identity__organisation")
            condition &= Q(*((f"{column}__icontains", word) for column in columns), _connector=Q.OR)
        return condition


def list_models(filters: ModelFilters, sort: str) -> "QuerySet[LanguageModel, Any]":
    """The models with an entry that is neither hidden nor withdrawn and fits the filters, a row each.

    Entries that are evidence about one model are one row, with the number of them and of the metrics that have scored
    any. sort: a key of SORTS.
    """
    is_done = Q(scorings__state=Work.State.DONE)
    visible_entries = LanguageModel.objects.filter(ranked_now())
    matches = visible_entries.filter(filters.condition)
    entries = visible_entries.filter(Q(pk__in=matches.values("pk")) | Q(identity__in=matches.values("identity")))
    entries = entries.annotate(
        model=Coalesce("identity", -F("pk")),
        title=Coalesce(*shared_columns("name")),
        address_slug=Coalesce(*shared_columns("slug")),
        stated_licence=Coalesce(NullIf("identity__licence", Value("")), "licence"),
        stated_size=Coalesce(*shared_columns("parameters")),
    )
    return (
        entries.order_by()
        .values("model", "title", "address_slug")
        .annotate(
            first=Min("pk"),
            family=Max("family"),
            kind=Min("kind"),
            maker=Max("identity__organisation"),
            licence=Max("stated_licence"),
            size=Max("stated_size"),
            entered=Max("created_at"),
            entry_count=Count("pk", distinct=True),
            metric_count=Count("scorings__metric_version__metric", filter=is_done, distinct=True),
        )
        .order_by(*SORTS[sort])
    )


def shared_columns(name: str) -> tuple[str, str]:
    """A column of the model of an entry, else of the entry."""
    return f"identity__{name}", name


def list_families() -> list[str]:
    """The families that have models here, in one query."""
    rows = LanguageModel.objects.filter(ranked_now()).exclude(family="").order_by(Lower("family"))
    return list(dict.fromkeys(rows.values_list("family", flat=True)))


@dataclass(frozen=True, slots=True)
class ListedMetric:
    """A metric with what is known of it. models: how many its current versions have scored; scorer: its state."""

    metric: Metric
    models: int
    versions: int
    scorer: WatchedScorer


def list_metrics() -> list[ListedMetric]:
    """Every metric, those with numbers first; in a constant number of queries."""
    scorers = {scorer.metric.pk: scorer for scorer in list_watched_scorers()}
    scorings = Scoring.objects.filter(is_listed("model__"), state=Work.State.DONE).order_by()
    counts = dict(scorings.values_list("metric_version").annotate(Count("model", distinct=True)))
    rows = [
        ListedMetric(
            metric,
            sum(counts.get(version.pk, 0) for version in current_versions(metric, ["measured", "published"])),
            len(published_versions(metric)),
            scorers[metric.pk],
        )
        for metric in metrics_with_versions()
    ]
    return sorted(rows, key=lambda row: not row.models)
