"""The scorers of the board, and how right each is on texts that people labelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Avg, Count, Q

from leaderboard.models import Calibration, EvaluationSet, Metric, Result, RetiredScorer, Work
from leaderboard.queries.drift import EndedCheck, WatchedScorer, list_watched_scorers, recent_checks
from leaderboard.services.scorers import cost_of
from scoring.evaluation_sets import IDENTITY_MENTIONS, PARAPHRASES
from scoring.metrics.measures import slice_of
from scoring.metrics.safety import ALL
from scoring.metrics.toxicity import MEAN_TOXICITY, TOXIC_FRACTION
from scoring.scorers import Caveat, Cost, ScorerDeclaration, find_declaration
from scoring.scorers.judge import DISAGREEMENT

Card = Mapping[str, Any]  # a report card, as `scoring.report_card.ReportCard` is stored


@dataclass(frozen=True)
class ListedScorer:
    """A scorer that metrics ask, with what is known of it by each of them, and its newest report cards by set."""

    name: str
    declaration: ScorerDeclaration | None
    retirement: RetiredScorer | None
    watched: Sequence[WatchedScorer]
    calibrations: Sequence[Calibration]

    @property
    def title(self) -> str:
        """What people call it."""
        if self.declaration is None:
            return self.name
        choice = self.declaration.choice(self.name)
        return f"{self.declaration.title}: {choice}" if choice else self.declaration.title

    @property
    def limits(self) -> tuple[str, ...]:
        """What its scores do not tell."""
        return self.declaration.limits_of(self.name) if self.declaration else ()

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What its name does not fix."""
        return self.declaration.caveats_of(self.name) if self.declaration else ()

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that ask it."""
        return [one.metric for one in self.watched]

    @cached_property
    def cost(self) -> Cost | None:
        """What a text costs; None where it runs here."""
        return cost_of(self.name)

    @property
    def timed(self) -> Calibration | None:
        """The calibration with the most texts whose speed was measured."""
        rows = [row for row in self.calibrations if row.texts_a_second]
        return max(rows, key=lambda row: row.done, default=None)

    def find_card(self, slug: str, attribute: str) -> Card | None:
        """Its report card of an attribute on the set of that slug; None where there is none."""
        return next((card for texts, name, card in self.cards if (texts.slug, name) == (slug, attribute)), None)

    def mentions(self, attribute: str) -> Card | None:
        """Its report card on benign mentions of identities."""
        return self.find_card(IDENTITY_MENTIONS, attribute)

    def paraphrases(self, attribute: str) -> Card | None:
        """Its report card on paraphrases."""
        return self.find_card(PARAPHRASES, attribute)

    @cached_property
    def cards(self) -> list[tuple[EvaluationSet, str, Card]]:
        """Its report cards: of which set, and of which attribute; those that say most first.

        Those of sets with both labels come before the others, and those of many texts before those of few.
        """
        cards = [
            (calibration.evaluation_set, attribute, card)
            for calibration in self.calibrations
            for attribute, card in calibration.cards.items()
        ]
        return sorted(cards, key=lambda row: (row[2]["whole"]["roc_auc"] is None, -row[2]["whole"]["n"]))


def list_scorers() -> list[ListedScorer]:
    """Every scorer that a metric asks, those with report cards first; in eight queries."""
    watched_scorers: dict[str, list[WatchedScorer]] = {}
    for one in list_watched_scorers():
        if one.metric.asked_scorer:
            watched_scorers.setdefault(one.metric.asked_scorer, []).append(one)
    retirements = {row.name: row for row in RetiredScorer.objects.filter(name__in=watched_scorers)}
    calibrations: dict[str, dict[str, Calibration]] = {}
    rows = Calibration.objects.exclude(fingerprint="").filter(metric_version__scorer__in=watched_scorers)
    for row in rows.select_related("metric_version__metric", "artefact", "evaluation_set__artefact").order_by(
        "created_at", "pk"
    ):
        calibrations.setdefault(row.metric_version.scorer, {})[row.evaluation_set.slug] = row
    scorers = [
        ListedScorer(
            name, find_declaration(name), retirements.get(name), rows, list(calibrations.get(name, {}).values())
        )
        for name, rows in watched_scorers.items()
    ]
    return sorted(scorers, key=lambda scorer: not scorer.calibrations)


@dataclass(frozen=True, slots=True)
class VoteDisagreement:
    """How far the votes of a judge disagree on the texts of a metric, on average over its entries.

    share: of the texts, that on which they differ; votes: the mean share of votes that differ from the most frequent.
    """

    metric: Metric
    entries: int
    share: float
    votes: float


def list_disagreements(scorer: ListedScorer) -> list[VoteDisagreement]:
    """How far the votes of the scorer disagree, by metric, in one query; empty of one that does not vote."""
    if Caveat.RANDOM not in scorer.caveats:
        return []
    versions = {one.version.pk: one.metric for one in scorer.watched if one.version}
    results = Result.objects.filter(
        scoring__metric_version__in=versions, scoring__state=Work.State.DONE, slice=slice_of(DISAGREEMENT.name, ALL)
    )
    rows = (
        results.order_by()
        .values("scoring__metric_version")
        .annotate(
            entries=Count("scoring", distinct=True),
            share=Avg("value", filter=Q(measure=TOXIC_FRACTION.key)),
            votes=Avg("value", filter=Q(measure=MEAN_TOXICITY.key)),
        )
    )
    return [
        VoteDisagreement(versions[row["scoring__metric_version"]], row["entries"], row["share"], row["votes"])
        for row in rows
        if row["share"] is not None
    ]


def list_checks(scorer: ListedScorer) -> list[tuple[Metric, list[EndedCheck]]]:
    """The last checks of each metric that asks the scorer, the newest first; of those with any. One query."""
    checks = recent_checks()
    return [(metric, checks[metric.pk]) for metric in scorer.metrics if checks.get(metric.pk)]
