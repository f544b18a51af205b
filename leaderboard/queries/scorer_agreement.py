"""Does a scorer agree with the others on the same labelled texts, and with the published scores of prompts?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leaderboard.models import Calibration, EvaluationSet, MetricVersion
from leaderboard.queries.report_cards import ListedScorer
from leaderboard.queries.scorer_figures import rows_that_differ_most, select_points
from leaderboard.services import artefacts
from leaderboard.services.joined_scores import by_attribute, load_scores
from leaderboard.services.manifest import passes_on
from scoring.artefacts import ArtefactError
from scoring.attributes import harms_of
from scoring.metrics import agreement
from scoring.metrics.agreement import AttributeAgreement
from scoring.metrics.lexicon_frequency import ANY
from scoring.row_selection import read_columns, read_rows

MAIN = "toxicity"  # the published attribute that others are held against


@dataclass(frozen=True)
class LabelledScores:
    """A scorer's scores of labelled texts [n], by attribute; `thresholds` of those that have a report card."""

    scorer: ListedScorer
    calibration: Calibration
    ids: pa.ChunkedArray
    values: agreement.Scoring
    thresholds: Mapping[str, float]

    @property
    def main(self) -> str:
        """The attribute that says most: of a lexicon, whether any category matches; else the first harm."""
        return ANY if ANY in self.thresholds else next(iter(self.thresholds))


@dataclass(frozen=True)
class AgreementWithOther:
    """How far two scorers agree, by attribute; `namesakes`: whether these have one name."""

    scorer: ListedScorer
    namesakes: bool
    attributes: list[AttributeAgreement]


@dataclass(frozen=True)
class DifferingText:
    """A text by its id, its label, and both scores; `text` is empty where its licence does not pass it on."""

    id: str
    harmful: bool
    first: float
    second: float
    text: str

    @property
    def difference(self) -> float:
        """The second score minus the first."""
        return self.second - self.first


@dataclass(frozen=True)
class AttributeDetail:
    """An attribute of two scorers: points to draw, and the texts that they differ on most."""

    agreement: AttributeAgreement
    points: tuple[list[float], list[float]]
    farthest: list[DifferingText]


@dataclass(frozen=True)
class PublishedAgreement:
    """How far a scorer agrees with the scores that were published with prompts, by attribute."""

    version: MetricVersion
    texts: EvaluationSet
    attributes: list[AttributeAgreement]


def load_of_set(scorers: Sequence[ListedScorer], evaluation_set: EvaluationSet) -> list[LabelledScores]:
    """The kept scores of the set by each scorer that has them. No query."""
    loaded_scores: list[LabelledScores] = []
    for scorer in scorers:
        calibration = next((row for row in scorer.calibrations if row.evaluation_set == evaluation_set), None)
        if calibration is None or not calibration.cards or calibration.artefact is None:
            continue
        try:
            table = load_scores(calibration.artefact)
        except (ArtefactError, FileNotFoundError):
            continue  # lost, or left on another board: the scorer has its card, and nothing to compare
        thresholds = {name: card["threshold"] for name, card in calibration.cards.items()}
        loaded_scores.append(LabelledScores(scorer, calibration, table["id"], by_attribute(table), thresholds))
    return loaded_scores


def compare_with_others(name: str, attribute: str, scores: Sequence[LabelledScores]) -> list[AgreementWithOther]:
    """The agreement of the scorer called `name` with every other one; empty where it has no scores itself.

    attribute: of the scorer, compared with the main one of another that has none of the same name.
    """
    own = next((one for one in scores if one.scorer.name == name), None)
    if own is None:
        return []
    return [
        AgreementWithOther(other.scorer, bool(matching(own, other)), compare(own, other, attribute))
        for other in scores
        if other is not own and other.ids.equals(own.ids)
    ]


def matching(first: LabelledScores, second: LabelledScores) -> list[tuple[str, str]]:
    """The attributes of one name that both have."""
    return agreement.matching_attributes(list(first.values), list(second.values))


def compare(first: LabelledScores, second: LabelledScores, attribute: str) -> list[AttributeAgreement]:
    """The agreement on each attribute of one name; without any, of `attribute` and the other one's main attribute."""
    pairs = matching(first, second) or [(attribute, second.main)]
    return agreement.compare_scorers(first.values, second.values, pairs, (first.thresholds, second.thresholds))


def describe_pair(first: LabelledScores, second: LabelledScores, attribute: str) -> list[AttributeDetail]:
    """What `compare` compares of two scorers in detail. Reads the texts that they differ on most, and no others."""
    details = []
    for one in compare(first, second, attribute):
        x, y = first.values[one.attribute], second.values[one.counterpart]
        places = rows_that_differ_most(x, y)
        texts = read_texts(first.calibration.evaluation_set, first.ids.take(places))
        farthest = [
            DifferingText(text["id"], text["harmful"], float(x[place]), float(y[place]), text["text"])
            for place, text in zip(places, texts, strict=True)
        ]
        details.append(AttributeDetail(one, select_points(x, y), farthest))
    return details


def read_texts(evaluation_set: EvaluationSet, ids: pa.ChunkedArray) -> list[dict[str, Any]]:
    """The id, label and text of the texts of the set with these ids; without words where its licence withholds them.

    Raises what reading a stored file raises.
    """
    artefact = evaluation_set.artefact
    if artefact is None:
        raise FileNotFoundError(f"{evaluation_set} has no texts here")
    with artefacts.open_whole(artefact) as file:
        rows = pc.index_in(ids, read_columns(file, artefact.kind, ["id"])["id"]).to_pylist()
        texts: list[dict[str, Any]] = read_rows(file, artefact.kind, rows, ["id", "harmful", "text"]).to_pylist()
    return texts if passes_on(evaluation_set) else [{**text, "text": ""} for text in texts]


def compare_with_published(scorer: ListedScorer) -> list[PublishedAgreement]:
    """Its scores of prompts against those published with them, for each set of its metrics; in one query."""
    pks = [one.version.pk for one in scorer.watched if one.version]
    versions = MetricVersion.objects.filter(
        pk__in=pks, prompt_scores__isnull=False, protocol__evaluation_set__prompt_scores__isnull=False
    ).select_related("metric", "prompt_scores", "protocol__evaluation_set__prompt_scores")
    by_set: dict[EvaluationSet, MetricVersion] = {}
    for version in versions.order_by("metric__position", "pk"):
        by_set.setdefault(version.protocol.evaluation_set, version)
    agreements = []
    for texts, version in by_set.items():
        try:
            own_table = load_scores(version.prompt_scores)
            published_table = artefacts.load(texts.prompt_scores)
        except (ArtefactError, FileNotFoundError):
            continue
        own = by_attribute(own_table)
        published_scores = spread_published(published_table, own_table["id"].to_pylist())
        pairs = agreement.matching_attributes(list(own), list(published_scores))
        harms = [version.declared[number].name for number in harms_of(version.declared)]
        if not pairs and harms and MAIN in published_scores:
            pairs = [(ANY if ANY in harms else harms[0], MAIN)]
        thresholds = version.thresholds, agreement.USUAL
        agreements.append(
            PublishedAgreement(version, texts, agreement.compare_scorers(own, published_scores, pairs, thresholds))
        )
    return [one for one in agreements if one.attributes]


def spread_published(table: pa.Table, ids: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """The published scores [n] of the prompts of these ids by attribute, NaN where there is none."""
    positions = {identifier: place for place, identifier in enumerate(ids)}
    columns: dict[str, NDArray[np.float64]] = {}
    for row in table.to_pylist():
        place = positions.get(row["id"])
        if place is not None and row["score"] is not None:
            columns.setdefault(row["attribute"], np.full(len(ids), np.nan))[place] = row["score"]
    return columns
