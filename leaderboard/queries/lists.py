"""Lists of what people look for: every model, and every metric with the state of its scorer."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Lower, NullIf

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    Provenance,
    Standing,
    Work,
    is_listed,
    ranked_now,
)
from leaderboard.queries.drift import WatchedScorer, list_watched_scorers
from leaderboard.rankings.populations import ALL
from leaderboard.rankings.rows import entries_of_all, unranked_under
from leaderboard.rankings.selection import Selection
from leaderboard.rankings.slices import slices_of
from leaderboard.rankings.versions import current_versions, metrics_with_versions, published_versions
from leaderboard.rankings.view import SIZES, Filters, in_band
from scoring.metrics.formulas import MEASURES, slices_in_order

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

    Entries that are evidence about one model are one row, with the number of them and of the metrics that its page has
    numbers of: that of a model those that rank it now, that of an entry all that published any. sort: a key of SORTS.
    """
    own_version = OuterRef("scorings__metric_version")
    has_rank = Exists(Standing.objects.filter(metric_version=own_version, model=OuterRef("pk")))
    of_model = Q(identity__isnull=False, scorings__metric_version__status=MetricVersion.Status.CURRENT) & has_rank
    of_entry = Q(identity__isnull=True, scorings__metric_version__published_at__isnull=False)
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
            metric_count=Count(
                "scorings__metric_version__metric",
                filter=Q(scorings__state=Work.State.DONE) & (of_model | of_entry),
                distinct=True,
            ),
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
    """A metric with what is known of it. models: how many its page of rankings has; scorer: its state."""

    metric: Metric
    models: int
    versions: int
    scorer: WatchedScorer


def list_metrics() -> list[ListedMetric]:
    """Every metric, those with numbers first; in a constant number of queries."""
    scorers = {scorer.metric.pk: scorer for scorer in list_watched_scorers()}
    metrics = metrics_with_versions()
    counts = count_models(metrics)
    rows = [
        ListedMetric(metric, counts[metric.pk], len(published_versions(metric)), scorers[metric.pk])
        for metric in metrics
    ]
    return sorted(rows, key=lambda row: not row.models)


def count_models(metrics: list[Metric]) -> Counter[int]:
    """How many models the page of rankings of each metric has, with those that lack too many scores for a rank.

    The page is of the current versions, on the first slice of any. metrics: those of `metrics_with_versions`.
    """
    versions = {metric: current_versions(metric, Provenance.values) for metric in metrics}
    slices = slices_of({version: version.first_measure for own in versions.values() for version in own})
    selections = []
    for metric, own in versions.items():
        names = slices_in_order({name for version in own for name in slices.get(version.pk, [])})
        selections += [
            Selection(metric, [version], MEASURES[version.first_measure], names[0], slices, [ALL])
            for version in own
            if names
        ]
    standings = Standing.objects.filter(entries_of_all(selections), is_listed("model__")).order_by()
    counts = Counter(dict(standings.values_list("metric_version__metric").annotate(Count("pk"))))
    return counts + Counter(result.scoring.metric_version.metric_id for result in unranked_under(selections, Filters()))
