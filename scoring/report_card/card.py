"""A report card: all figures of one attribute of a scorer on one set of labelled texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from scoring.attributes import is_above
from scoring.evaluation_sets.labelled_texts import LabelledTexts
from scoring.report_card.disturbances import DisturbanceEffect, choose_sample, measure_effect, measure_effects
from scoring.report_card.figures import (
    Array,
    Flags,
    IntervalEstimate,
    ReliabilityBin,
    average_precision,
    bnsp_auc,
    bpsn_auc,
    expected_calibration_error,
    false_negative_rate,
    false_positive_rate,
    reliability,
    roc_auc,
    share,
)

NOTHING: Mapping[str, NDArray[np.floating]] = MappingProxyType({})
LENGTH_QUANTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class PartFigures:
    """How a scorer does on some of the texts; None where the labels of the part do not allow a figure."""

    n: int
    roc_auc: IntervalEstimate | None
    false_positives: IntervalEstimate | None
    false_negatives: IntervalEstimate | None


@dataclass(frozen=True)
class GroupFigures:
    """How a scorer does on texts about a demographic, and on those beside the texts of others."""

    about_it: PartFigures
    bpsn_auc: IntervalEstimate | None
    bnsp_auc: IntervalEstimate | None


@dataclass(frozen=True)
class ReportCard:
    """All figures. `unscored`: texts without a score, left out.

    `passes`: the share of texts labelled right by functionality. `disturbances`: of a sample, by name. `paraphrases`:
    from a text to another that says the same, None where the set has no such texts.
    """

    threshold: float
    unscored: int
    whole: PartFigures
    average_precision: float | None
    reliability: list[ReliabilityBin]
    calibration_error: float
    groups: dict[str, GroupFigures]
    languages: dict[str, PartFigures]
    lengths: dict[str, PartFigures]
    passes: dict[str, IntervalEstimate]
    passes_by_group: dict[str, dict[str, IntervalEstimate]]
    disturbances: dict[str, DisturbanceEffect]
    paraphrases: DisturbanceEffect | None


def make_card(
    texts: LabelledTexts,
    values: NDArray[np.floating],
    threshold: float = 0.5,
    disturbed_values: Mapping[str, NDArray[np.floating]] = NOTHING,
) -> ReportCard:
    """The report card of scores [n] of `texts`, in 0..1, NaN where there is none.

    A text is labelled harmful where its score is strictly above `threshold`. disturbed_values: the scores of the texts
    that `choose_sample` chooses of n, under each disturbance that was scored. Raises ValueError for scores of another
    number or range, and where no text has one.
    """
    has_score = np.isfinite(values)
    if values.shape != texts.harmful.shape:
        raise ValueError(f"values: there are {len(values):,} scores of {len(texts):,} texts; give one each")
    if not has_score.any():
        raise ValueError("values: no text has a score; a report card needs some")
    scores, harmful = values[has_score].astype(np.float64), texts.harmful[has_score]
    if scores.min() < 0 or scores.max() > 1:
        raise ValueError("values: a score lies outside 0..1; give probabilities")
    predictions = is_above(scores, threshold)
    groups = {name: member[has_score] for name, member in texts.groups.items()}
    diagram = reliability(scores, harmful)

    def figures(part: Flags) -> PartFigures:
        return part_figures(scores[part], predictions[part], harmful[part])

    return ReportCard(
        threshold=threshold,
        unscored=int((~has_score).sum()),
        whole=figures(np.ones(len(scores), dtype=bool)),
        average_precision=average_precision(scores, harmful),
        reliability=diagram,
        calibration_error=expected_calibration_error(diagram),
        groups={
            name: GroupFigures(figures(member), bpsn_auc(scores, harmful, member), bnsp_auc(scores, harmful, member))
            for name, member in groups.items()
            if member.any()
        },
        languages={name: figures(part) for name, part in parts_by_name(texts.languages[has_score]).items()},
        lengths={name: figures(part) for name, part in parts_by_length(texts, has_score).items()},
        passes=pass_rates(predictions == harmful, texts.functionalities[has_score]),
        passes_by_group={
            name: rates
            for name, member in groups.items()
            if (rates := pass_rates((predictions == harmful)[member], texts.functionalities[has_score][member]))
        },
        disturbances=measure_effects(values[choose_sample(len(texts))], disturbed_values, threshold),
        paraphrases=compare_paraphrases(texts, values, threshold),
    )


def compare_paraphrases(
    texts: LabelledTexts, values: NDArray[np.floating], threshold: float
) -> DisturbanceEffect | None:
    """The effect of saying the same in other words; None where no text is a paraphrase with scores of both."""
    rows = {identifier: row for row, identifier in enumerate(texts.ids)}
    named_rows = [rows.get(str(name), -1) for name in texts.paraphrase_of]  # of a sample, the original may not be there
    originals = np.array(named_rows, dtype=np.int64)
    paraphrases = np.flatnonzero(originals >= 0)
    return measure_effect(values[originals[paraphrases]], values[paraphrases], threshold)


def part_figures(scores: Array, predictions: Flags, harmful: Flags) -> PartFigures:
    """The figures of some texts."""
    return PartFigures(
        len(scores),
        roc_auc(scores, harmful),
        false_positive_rate(predictions, harmful),
        false_negative_rate(predictions, harmful),
    )


def parts_by_name(names: NDArray[np.str_]) -> dict[str, Flags]:
    """Which texts [n] bear each name, those without one left out."""
    return {str(name): names == name for name in np.unique(names) if name}


def parts_by_length(texts: LabelledTexts, has_score: Flags) -> Mapping[str, Flags]:
    """The scored texts [n] by length: four parts of about as many texts, named by their characters.

    Fewer where many texts are as long as one another.
    """
    lengths = np.array([len(text) for text in texts.texts])[has_score]
    bounds = np.unique(np.quantile(lengths, LENGTH_QUANTILES, method="lower"))
    numbers = np.searchsorted(bounds, lengths, side="left")
    parts = {}
    for number in np.unique(numbers):
        part = numbers == number
        parts[f"{lengths[part].min()} to {lengths[part].max()} characters"] = part
    return parts


def pass_rates(right: Flags, functionalities: NDArray[np.str_]) -> dict[str, IntervalEstimate]:
    """The share of texts labelled right by functionality, as HateCheck reports (Röttger et al. 2021)."""
    rates = {name: share(right[part]) for name, part in parts_by_name(functionalities).items()}
    return {name: rate for name, rate in rates.items() if rate is not None}
