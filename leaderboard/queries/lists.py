"""Lists of what people look for: every model, and every metric with the state of its scorer."""

from dataclasses import dataclass

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Lower

from leaderboard.models import LanguageModel, Metric, Scoring, Work, is_listed, ranked_now
from leaderboard.queries.drift import WatchedScorer, list_watched_scorers
from leaderboard.rankings.versions import current_versions, metrics_with_versions, published_versions
from leaderboard.rankings.view import SIZES, in_band, match_words

SORTS = {
    "name": (Lower("name").asc(), F("pk").asc()),
    "-parameters": (F("parameters").desc(nulls_last=True), Lower("name").asc()),
    "parameters": (F("parameters").asc(nulls_last=True), Lower("name").asc()),
    "-metrics": (F("metric_count").desc(), Lower("name").asc()),
    "-entered": (F("created_at").desc(), F("pk").desc()),
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
        return condition & match_words(self.q) & in_band("parameters", SIZES, self.size)


def list_models(filters: ModelFilters, sort: str) -> "QuerySet[LanguageModel]":
    """The models that are neither hidden nor withdrawn, each with the number of metrics that have scored it.

    sort: a key of SORTS.
    """
    is_done = Q(scorings__state=Work.State.DONE)
    metric_count = Count("scorings__metric_version__metric", filter=is_done, distinct=True)
    models = LanguageModel.objects.filter(ranked_now(), filters.condition).annotate(metric_count=metric_count)
    return models.order_by(*SORTS[sort])


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
