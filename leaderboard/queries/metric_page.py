"""What a metric is: its protocol, evaluation set and scorer in words, and its versions as a timeline."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, F

from leaderboard.models import (
    ControlSet,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Protocol,
    Provenance,
    Rescoring,
    Scoring,
    Work,
    is_listed,
)
from leaderboard.services.policies import policy_of
from leaderboard.services.scorers import cost_of, problem_with
from scoring.drift import Policy
from scoring.evaluation_sets import irregularities_in_words
from scoring.scorers import Caveat, Cost, ScorerUnavailable
from scoring.scorers.registry import find_declaration

MOST_OUTDATED = 12  # entries of a version that are named; the others are counted


@dataclass(frozen=True, slots=True)
class Outdated:
    """An entry that is not ranked under a version, and why."""

    slug: str
    name: str
    last_version: int
    reason: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A version in the timeline. `before`: the version of its provenance that it followed; None for the first.

    `decided_by`: of the check that opened it. `entries`: models with numbers under it.
    """

    version: MetricVersion
    before: MetricVersion | None
    decided_by: str
    rescoring: Rescoring | None
    entries: int
    outdated: list[Outdated]
    more_outdated: int

    @property
    def other_scorer(self) -> str:
        """The scorer before, where another one took over."""
        return self.before.scorer if self.before and self.before.scorer != self.version.scorer else ""

    @property
    def formula_changes(self) -> str:
        """What its formula computes otherwise than that of the measured version before; empty where nothing."""
        if self.before is None or not self.version.measured:
            return ""
        return self.version.metric.formula.describe_changes(self.before.formula_version, self.version.formula_version)

    @property
    def other_fingerprint(self) -> bool:
        """Whether its scores are made by something else than those before; of figures from papers nobody knows."""
        previous, fingerprint = self.before, self.version.scorer_fingerprint
        return bool(previous and fingerprint and self.version.measured and previous.scorer_fingerprint != fingerprint)


@dataclass(frozen=True, slots=True)
class ScorerCard:
    """What is known of the scorer; `problem`: why it cannot be had here, `cost`: of a text, where it is remote."""

    name: str
    title: str
    fingerprint: str
    problem: ScorerUnavailable | None
    cost: Cost | None
    limits: tuple[str, ...]
    caveats: tuple[Caveat, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """How many texts of an evaluation set are about a demographic; by label, where they have labels."""

    demographic: str
    harmful: int | None
    benign: int | None
    texts: int


@dataclass(frozen=True, slots=True)
class Story:
    """All of a metric's page. `version`: the newest that is published; the protocol shown is its own."""

    metric: Metric
    version: MetricVersion | None
    protocol: list[tuple[str, str]]
    chat_protocol: Protocol | None
    counts: list[Counted]
    irregularities: list[str]
    scorer: ScorerCard | None
    policy: Policy
    check_hours: float
    control: ControlSet | None
    moments: list[Moment]

    @property
    def chat_settings(self) -> list[tuple[str, str]]:
        """How chat entries are asked, in words; empty where none are ranked."""
        protocol = self.chat_protocol
        return protocol.outputs.describe(protocol.parameters) if protocol else []

    @property
    def limits(self) -> tuple[str, ...]:
        """What the numbers do not tell: of the formula, then of the scorer."""
        return self.metric.formula.limits + (self.scorer.limits if self.scorer else ())

    @property
    def labelled(self) -> bool:
        """Whether the texts are counted by label."""
        return any(count.harmful is not None for count in self.counts)

    @property
    def compared(self) -> str:
        """The provenance whose versions make the history of ranks: measured ones where there are two."""
        measured_moments = [
            moment for moment in self.moments if moment.version.measured and moment.version.published_at
        ]
        return Provenance.MEASURED.value if len(measured_moments) > 1 else Provenance.PUBLISHED.value


def find_metric(slug: str) -> Metric | None:
    """The metric of that slug with its texts, in one query."""
    metrics = Metric.objects.select_related("protocol__evaluation_set__artefact", "chat_protocol")
    return metrics.filter(slug=slug).first()


def story(metric: Metric) -> Story:
    """What there is to say of a metric, in five queries."""
    moments = timeline(metric)
    published_versions = [moment.version for moment in moments if moment.version.published_at]
    measured_versions = [version for version in published_versions if version.measured]
    version = next(iter(measured_versions or published_versions), None)
    protocol = version.protocol if version else metric.protocol
    chat_protocol = (version.chat_protocol if version else None) or metric.chat_protocol
    control = (
        ControlSet.objects.filter(metric_version=version).select_related("items").first() if measured_versions else None
    )
    return Story(
        metric=metric,
        version=version,
        protocol=protocol.outputs.describe(protocol.parameters),
        chat_protocol=chat_protocol,
        counts=list_counts(protocol.evaluation_set.counts),
        irregularities=irregularities_in_words(protocol.evaluation_set.irregularities),
        scorer=scorer_card(metric, version) if metric.asked_scorer else None,
        policy=policy_of(metric, version.declared if version else ()),
        check_hours=settings.CHECK_SECONDS / 3600,
        control=control,
        moments=moments,
    )


def timeline(metric: Metric) -> list[Moment]:
    """All versions, the newest first: published ones, the one being made, those given up."""
    versions = list(
        metric.versions.select_related("protocol__evaluation_set__artefact", "chat_protocol", "opened_because")
        .defer("opened_because__statistics", "opened_because__environment")
        .annotate(decided_by=F("opened_because__statistics__decided_by"))
        .order_by("number")
    )
    done_scorings = Scoring.objects.filter(metric_version__metric=metric, state=Work.State.DONE).order_by()
    entries = dict(done_scorings.values_list("metric_version").annotate(count=Count("pk")))
    rescorings = {
        version_outdated.to_version_id: version_outdated
        for version_outdated in Rescoring.objects.filter(metric=metric).order_by("pk")
    }
    outdated_by_version: dict[int, list[Outdated]] = {}
    outdated_entries = OutdatedEntry.objects.filter(is_listed("model__"), metric_version__metric=metric).order_by(
        "model__name"
    )
    for version_pk, slug, name, number, reason in outdated_entries.values_list(
        "metric_version", "model__slug", "model__name", "last_scoring__metric_version__number", "reason"
    ):
        outdated_by_version.setdefault(version_pk, []).append(Outdated(slug, name, number, reason))
    last: dict[str, MetricVersion] = {}
    moments = []
    for version in versions:
        version_outdated = outdated_by_version.get(version.pk, [])
        moments.append(
            Moment(
                version=version,
                before=last.get(version.provenance),
                decided_by=version.decided_by or "",
                rescoring=rescorings.get(version.pk),
                entries=entries.get(version.pk, 0),
                outdated=version_outdated[:MOST_OUTDATED],
                more_outdated=len(version_outdated[MOST_OUTDATED:]),
            )
        )
        if version.published_at:
            last[version.provenance] = version
    return moments[::-1]


def scorer_card(metric: Metric, version: MetricVersion | None) -> ScorerCard:
    """What is known of a metric's scorer without loading it."""
    name = metric.scorer
    declaration = find_declaration(name)
    is_own = version is not None and version.measured and version.scorer == name
    return ScorerCard(
        name=name,
        title=declaration.title if declaration else name,
        fingerprint=version.scorer_fingerprint if version and is_own else "",
        problem=problem_with(name),
        cost=cost_of(name),
        limits=declaration.limits_of(name) if declaration else (),
        caveats=declaration.caveats_of(name) if declaration else (),
    )


def list_counts(counts: dict[str, Any]) -> list[Counted]:
    """Counts as an evaluation set keeps them: of prompts a number a group, of sentences one a label too."""
    rows = []
    for name, group_counts in sorted(counts.items()):
        if isinstance(group_counts, dict):
            rows.append(
                Counted(name, group_counts.get("harmful", 0), group_counts.get("benign", 0), sum(group_counts.values()))
            )
        else:
            rows.append(Counted(name, None, None, group_counts))
    return rows


def policy_rows(policy: Policy, mean_shift_note: str) -> Sequence[tuple[str, str]]:
    """The drift policy, limit by limit. mean_shift_note: what a shift of a mean is, where that needs saying."""
    limits = asdict(policy)
    flips = (
        f"{limits['least_flips']} labels, or {100 * limits['flip_share']:g}% of the texts where that is more, cross "
        f"{limits['threshold']} by more than their noise; over all texts or in one demographic."
    )
    return [
        *([("Label flips", flips)] if limits["threshold"] is not None else []),
        (
            "Mean shift",
            f"The mean of scores shifts by more than {limits['mean_difference']:g}, over all texts or in one "
            "demographic." + mean_shift_note,
        ),
        (
            "Reported measures",
            f"The {100 * limits['confidence']:g}% interval of a measure's change is not within the margin, a quarter "
            "of "
            "the median standard error of the entries; unless it is estimated that none would leave its rank range.",
        ),
        (
            "False alarms",
            f"The tests that can give one do so with a probability of at most {limits['alpha']:g} over all checks of a "
            "version together.",
        ),
    ]
