"""Which versions of a metric readers see, and which of them a request means.

A request names a version by its number; or by a day, as the one that was current when the day ended in UTC; or not at
all, and means the current one. A number and a day together mean that version, as it stood then. Of a measured version
and one of published figures, the measured one comes first.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Literal

from django.db.models import Exists, OuterRef, Prefetch, prefetch_related_objects

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    Provenance,
    RetiredScorer,
    Scoring,
    Work,
    is_listed,
)
from leaderboard.rankings.days import end_of
from leaderboard.state_memo import once_a_state
from scoring.refusals import Missing


class NoRanking(Missing):
    """There is no such ranking. The message says what there is."""


def versions_with_entries() -> "Prefetch[Literal['versions']]":
    """The versions of metrics that have entries, oldest first.

    `has_known` says of each whether a model that does not come with the board is among them.
    """
    entries = Scoring.objects.filter(metric_version=OuterRef("pk"), state=Work.State.DONE)
    has_known = Exists(entries.filter(is_listed("model__")).exclude(model__source=LanguageModel.Source.BUNDLED))
    versions = MetricVersion.objects.select_related("protocol__evaluation_set").filter(Exists(entries))
    versions = versions.annotate(has_known=has_known)
    return Prefetch("versions", versions.order_by("number"))


@once_a_state()
def metrics_with_versions() -> list[Metric]:
    """All metrics, each with those of its versions that have entries, in two queries.

    `in_use` says of each whether its scorer is not retired.
    """
    in_use = ~Exists(RetiredScorer.objects.filter(name=OuterRef("scorer")))
    metrics = Metric.objects.select_related("protocol__evaluation_set").annotate(in_use=in_use)
    return list(metrics.prefetch_related(versions_with_entries()))


def with_versions(metric: Metric) -> Metric:
    """The metric with those of its versions that have entries, as of `metrics_with_versions`; in one query."""
    prefetch_related_objects([metric], versions_with_entries())
    return metric


def ranks_known(metric: Metric) -> bool:
    """Whether readers find a model among its numbers that does not come with the board, as miniatures do."""
    return any(version.has_known for version in current_versions(metric, Provenance.values))  # type: ignore[attr-defined]


def published_versions(metric: Metric) -> list[MetricVersion]:
    """The versions that readers may look at, oldest first; of a metric of `metrics_with_versions`.

    A candidate is none of them, nor is what a rescoring left behind when it was given up.
    """
    return [version for version in metric.versions.all() if version.published_at]


def has_history(metric: Metric) -> bool:
    """Whether two published versions of one provenance can be compared; of a metric of `metrics_with_versions`."""
    provenances = [version.provenance for version in published_versions(metric)]
    return len(provenances) > len(set(provenances))


def choose_history(versions: Sequence[MetricVersion], number: str = "") -> list[MetricVersion]:
    """Those of `versions` that make one history: of one provenance, in their order.

    Nobody can say what a paper's figures and ours have to do with each other. So these are the measured ones, or the
    published ones where there are no two measured versions and two of those. number: that of a version whose history
    goes before, where it is one of several versions.
    """
    groups = [[version for version in versions if version.provenance == provenance] for provenance in Provenance.values]
    histories = [group for group in groups if len(group) > 1]
    own_histories = (group for group in histories if number in [str(version.number) for version in group])
    return next(own_histories, None) or next(iter(histories), None) or next(filter(None, groups), [])


def current_versions(metric: Metric, provenances: Sequence[str]) -> list[MetricVersion]:
    """The current versions of a metric of `metrics_with_versions`, measured before published."""
    versions = [version for version in metric.versions.all() if version.status == MetricVersion.Status.CURRENT]
    return [version for provenance in provenances for version in versions if version.provenance == provenance]


def current_at(versions: Iterable[MetricVersion], provenance: str, end: datetime) -> MetricVersion | None:
    """That of `versions` which was current just before `end`: from its publication to that of the next one."""
    candidates = [
        version for version in versions if version.provenance == provenance and published_before(version, end)
    ]
    return max(candidates, key=lambda version: (version.published_at or end, version.number), default=None)


def published_before(version: MetricVersion, end: datetime) -> bool:
    """Whether readers saw the version before `end`."""
    return version.published_at is not None and version.published_at < end


def choose_versions(
    metric: Metric, number: int | None = None, day: date | None = None, provenances: Sequence[str] = Provenance.values
) -> list[MetricVersion]:
    """The versions that a request means, at most one a provenance, in the order of `provenances`; maybe none.

    metric: one of `metrics_with_versions`.
    """
    end = None if day is None else end_of(day)
    if number is not None:
        versions = [version for version in published_versions(metric) if version.number == number]
        versions = [version for version in versions if end is None or published_before(version, end)]
        return [version for version in versions if version.provenance in provenances]
    if end is None:
        return current_versions(metric, provenances)
    readable_versions = published_versions(metric)
    candidates = [current_at(readable_versions, provenance, end) for provenance in provenances]
    return [version for version in candidates if version]


def choose_version(
    metric: Metric, number: int | None = None, day: date | None = None, provenance: str | None = None
) -> MetricVersion:
    """The version that a request for one ranking means. Raises NoRanking, listing those there are.

    metric: one of `metrics_with_versions`.
    """
    versions = choose_versions(metric, number, day, [provenance] if provenance else Provenance.values)
    if versions:
        return versions[0]
    available = ", ".join(
        f"{version.number} (published {version.published_at:%Y-%m-%d %H:%M} UTC, {version.status})"
        for version in published_versions(metric)
    )
    subject = "version" if number is None else f"version {number}"
    subject = f"{provenance} {subject}" if provenance else subject
    limit = "" if day is None else f" before {end_of(day):%Y-%m-%d}"
    fields = {"version": number, "as_of": day, "provenance": provenance, "slug": metric.slug}
    field = next(name for name, value in fields.items() if value is not None)
    message = f"{metric.slug} has no published {subject}{limit}; there is {available or 'none yet'}"
    raise NoRanking(message, field=field, value=fields[field])
