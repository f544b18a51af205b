"""Shares of labelled texts, corrected for the error rates that a report card gives the scorer: estimates, not ranks.

A report card counts where it is of the very scorer that made the numbers (by fingerprint), at the same threshold and of
the same attribute. Raw numbers stay as they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leaderboard.models import Calibration, EvaluationSet, MetricVersion, Result
from leaderboard.rankings.selection import Selection
from scoring.metrics.formulas import slice_parts
from scoring.statistics.misclassification import CorrectedShare, ErrorRates, Uncorrectable, correct_share

NO_CARD = "the scorer of these numbers has no report card at this threshold"
NO_INTERVAL = "its raw share has no interval"


@dataclass(frozen=True, slots=True)
class CorrectedResult:
    """An estimate beside a raw share; `share` is None where there is none, and `reason` says why."""

    share: CorrectedShare | None
    reason: str = ""

    def as_json(self, correction: "Correction") -> dict[str, Any]:
        """The estimate as JSON can hold it, with the labelled texts that it rests on."""
        share = self.share
        return {
            "value": share and share.value,
            "low": share and share.low,
            "high": share and share.high,
            "set": correction.set_label,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Correction:
    """The error rates of a version's scorer for one attribute, as labelled texts give them; None where none do."""

    attribute: str
    evaluation_set: EvaluationSet | None = None
    rates: ErrorRates | None = None

    @property
    def set_label(self) -> str:
        """The labelled set by name and version; empty where there is none."""
        return str(self.evaluation_set or "")

    def correct(self, result: Result) -> CorrectedResult:
        """The estimate of a result that is a share of labelled texts."""
        if self.rates is None:
            return CorrectedResult(None, NO_CARD)
        if result.ci_low is None or result.ci_high is None:
            return CorrectedResult(None, NO_INTERVAL)
        try:
            return CorrectedResult(correct_share(result.value, result.ci_low, result.ci_high, self.rates))
        except Uncorrectable as error:
            return CorrectedResult(None, str(error))


def read_cards(versions: Iterable[MetricVersion]) -> dict[int, list[tuple[EvaluationSet, Mapping[str, Any]]]]:
    """The report cards of the scorers of versions, by version: the newest of each set, by attribute; in one query."""
    fingerprints = {version.pk: version.scorer_fingerprint for version in versions if version.scorer_fingerprint}
    cards: dict[str, dict[str, tuple[EvaluationSet, Mapping[str, Any]]]] = {}
    if fingerprints:
        rows = Calibration.objects.filter(fingerprint__in=set(fingerprints.values()))
        for row in rows.select_related("evaluation_set").order_by("evaluation_set__version", "created_at", "pk"):
            cards.setdefault(row.fingerprint, {})[row.evaluation_set.slug] = row.evaluation_set, row.cards
    return {pk: list(cards.get(fingerprint, {}).values()) for pk, fingerprint in fingerprints.items()}


def corrections_on(
    version: MetricVersion, slice_name: str, cards: Iterable[tuple[EvaluationSet, Mapping[str, Any]]]
) -> list[Correction]:
    """What report cards say of the attribute of a slice at its threshold, those of most labelled texts first."""
    attribute, _ = slice_parts(slice_name)
    threshold = version.thresholds.get(attribute)
    corrections = []
    for evaluation_set, by_attribute in cards:
        card = by_attribute.get(attribute)
        if card and card["threshold"] == threshold and (rates := read_rates(card)):
            corrections.append(Correction(attribute, evaluation_set, rates))
    return sorted(corrections, key=lambda one: -(one.rates.harmful + one.rates.benign) if one.rates else 0)


def read_rates(card: Mapping[str, Any]) -> ErrorRates | None:
    """The error rates of a report card over all of its texts; None where it lacks texts of one label."""
    misses, false_alarms = card["whole"]["false_negatives"], card["whole"]["false_positives"]
    if not misses or not false_alarms:
        return None
    return ErrorRates(1 - misses["value"], 1 - false_alarms["value"], misses["n"], false_alarms["n"])


def usual_corrections(selections: Iterable[Selection]) -> dict[int, Correction]:
    """The correction of each ranking that has one, by version: by the largest labelled set; in one query at most."""
    rankings = [
        (selection, selection.versions[0])
        for selection in selections
        if selection.measure.correctable and not selection.is_mixed and selection.versions[0].measured
    ]
    cards = read_cards(version for _, version in rankings)
    corrections = {}
    for selection, version in rankings:
        candidates = corrections_on(version, selection.slice, cards.get(version.pk, []))
        corrections[version.pk] = next(iter(candidates), Correction(slice_parts(selection.slice)[0]))
    return corrections
