"""Two scorers on the same continuations: do they agree on texts, and do they order the models alike?"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from leaderboard.models import MetricVersion, Provenance, Standing, listed
from leaderboard.services.joined_scores import Pair, joined, shared_scorings
from leaderboard.services.record import NoRecord, Side, compared
from scoring.metrics import agreement
from scoring.metrics.agreement import AttributeAgreement
from scoring.metrics.formulas import MEASURES, slices_in_order
from scoring.metrics.lexicon_frequency import ANY
from scoring.metrics.measures import slice_of
from scoring.metrics.safety import ALL
from scoring.statistics.rank_changes import RankChanges

MOST_TEXTS = 200_000  # of which correlations are taken: their intervals are then well below 0.01 wide

Names = list[tuple[str, str]]


class CannotCompare(ValueError):
    """The two have nothing in common to compare; the message says why, and what there is."""


@dataclass(frozen=True)
class RankAgreement:
    """Two boards of the same models, one under each scorer."""

    first: Side
    second: Side
    changes: RankChanges


@dataclass(frozen=True)
class Comparison:
    """Agreement of two metric versions whose scorers judged the same runs.

    texts: continuations compared, of `texts_in_all` that both scored; runs likewise. namesakes: whether attributes of
    the same name were compared; else the main one of each was, which may mean different things.
    """

    first: MetricVersion
    second: MetricVersion
    runs: int
    runs_in_all: int
    texts: int
    texts_in_all: int
    namesakes: bool
    attributes: list[AttributeAgreement]
    ranks: list[RankAgreement]

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON can hold it."""
        return {
            "a": described(self.first),
            "b": described(self.second),
            "runs": self.runs,
            "runs_in_all": self.runs_in_all,
            "texts": self.texts,
            "texts_in_all": self.texts_in_all,
            "same_attribute_names": self.namesakes,
            "attributes": [found.as_json() for found in self.attributes],
            "rank_agreement": [
                {
                    "a": {"measure": found.first.measure.key, "slice": found.first.slice},
                    "b": {"measure": found.second.measure.key, "slice": found.second.slice},
                    **found.changes.as_json(),
                }
                for found in self.ranks
            ],
        }


def described(version: MetricVersion) -> dict[str, Any]:
    """Which version, and by which scorer."""
    return {
        "metric": version.metric.slug,
        "version": version.number,
        "status": version.status,
        "scorer": version.scorer,
        "scorer_fingerprint": version.scorer_fingerprint,
        "k": version.protocol.k,
    }


def find_version(name: str, versions: list[MetricVersion]) -> MetricVersion:
    """The one of `versions` called SLUG@VERSION; SLUG alone is the current one. Raises CannotCompare."""
    slug, _, number = name.partition("@")
    of_metric = [version for version in versions if version.metric.slug == slug]
    for version in of_metric:
        if str(version.number) == number or (not number and version.status == MetricVersion.Status.CURRENT):
            return version
    known = ", ".join(f"{version.metric.slug}@{version.number}" for version in of_metric or versions) or "none yet"
    raise CannotCompare(f"{name!r} is no published metric or version with scores of texts; there is {known}")


def comparable_versions() -> list[MetricVersion]:
    """Published, measured versions whose scorer judged texts, in one query."""
    versions = (
        MetricVersion.objects.filter(provenance=Provenance.MEASURED)
        .filter(published_at__isnull=False)
        .select_related("metric", "protocol__evaluation_set")
        .order_by("metric__position", "-number")
    )
    return [version for version in versions if version.metric.formula.asks_scorer]


def compare(
    first: MetricVersion, second: MetricVersion, most_texts: int = MOST_TEXTS, most_runs: int | None = None
) -> Comparison:
    """Compare the scorers of two versions on the continuations that both judged.

    The cost is reading two artefacts a run, one run at a time, and then correlations of `most_texts` texts at most,
    spaced evenly over all runs and within each. `most_runs` bounds the reading too: so many runs, spaced evenly by the
    models' names. Raises CannotCompare; FileNotFoundError where an artefact is gone.
    """
    if first == second:
        raise CannotCompare(f"{first} is on both sides: choose another metric, or another version of it")
    pairs = shared_scorings(first, second)
    if not pairs:
        raise CannotCompare(
            f"{first} and {second} have scored no run in common: choose two metrics of one protocol and evaluation set "
            "with entries of the same models"
        )
    chosen = evenly(pairs, most_runs or len(pairs))
    texts = sum(rows_of(pair) for pair in chosen)
    names, namesakes, x, y = collect(chosen, max(1, most_texts // len(chosen)))
    return Comparison(
        first,
        second,
        runs=len(chosen),
        runs_in_all=len(pairs),
        texts=len(next(iter(x.values()))),
        texts_in_all=texts if len(chosen) == len(pairs) else sum(map(rows_of, pairs)),
        namesakes=namesakes,
        attributes=agreement.compare_scorers(x, y, names, (first.thresholds, second.thresholds)),
        ranks=rank_agreement(first, second, names),
    )


def evenly(pairs: list[Pair], most: int) -> list[Pair]:
    """At most so many of the pairs, evenly spaced."""
    if len(pairs) <= most:
        return pairs
    return [pairs[int(number)] for number in np.linspace(0, len(pairs) - 1, most)]


def rows_of(pair: Pair) -> int:
    """Continuations that both scorings have a row for."""
    return min(scoring.artefact.rows if scoring.artefact else 0 for scoring in pair)


def collect(pairs: list[Pair], most: int) -> tuple[Names, bool, agreement.Scoring, agreement.Scoring]:
    """The attributes to compare, whether they are namesakes, and the scores of `most` continuations of each pair."""
    names: Names = []
    namesakes = False
    parts: tuple[list[agreement.Scoring], list[agreement.Scoring]] = ([], [])
    for pair in pairs:
        found = joined(pair, most)
        if not names:
            names = agreement.matching_attributes(list(found[0]), list(found[1]))
            namesakes = bool(names)
            names = names or [(main_attribute(found[0]), main_attribute(found[1]))]
        for kept, scores, chosen in zip(parts, found, zip(*names, strict=True), strict=True):
            kept.append({name: scores[name] for name in chosen})
    x, y = ({name: np.concatenate([part[name] for part in kept]) for name in kept[0]} for kept in parts)
    return names, namesakes, x, y


def main_attribute(scores: agreement.Scoring) -> str:
    """What a scorer says first; of a lexicon, whether any category matches."""
    return ANY if ANY in scores else next(iter(scores))


def rank_agreement(first: MetricVersion, second: MetricVersion, names: Names) -> list[RankAgreement]:
    """The boards under both, on the measure shown first, over all prompts of each attribute; in a few queries."""
    measures = [first.first_measure, second.first_measure]
    if measures[0] in second.metric.formula.measures:
        measures[1] = measures[0]
    slices = [ranked_slices(version, measure) for version, measure in zip((first, second), measures, strict=True)]
    places = [
        (one, other)
        for name, counterpart in names
        if (one := over_all(slices[0], name)) and (other := over_all(slices[1], counterpart))
    ]
    if not places and all(slices):
        places = [(slices[0][0], slices[1][0])]
    sides = [
        sides_of(version, measure, [place[number] for place in places])
        for number, (version, measure) in enumerate(zip((first, second), measures, strict=True))
    ]
    found = []
    for one, other in places:
        try:
            found.append(RankAgreement(sides[0][one], sides[1][other], compared(sides[0][one], sides[1][other])))
        except NoRecord:  # the two are better in different directions: an order has no counterpart
            continue
    return found


def ranked_slices(version: MetricVersion, measure: str) -> list[str]:
    """The slices that `version` ranks `measure` on, in order."""
    ranked = Standing.objects.filter(metric_version=version, measure=measure).order_by()
    return slices_in_order(ranked.values_list("slice", flat=True).distinct())


def over_all(slices: list[str], attribute: str) -> str | None:
    """The slice of an attribute over all prompts, as each formula names it."""
    return next((name for name in (slice_of(attribute, ALL), attribute) if name in slices), None)


def sides_of(version: MetricVersion, measure: str, names: list[str]) -> dict[str, Side]:
    """The boards of `version` on several slices, in one query."""
    everybody = Standing.Population.ALL.value
    rows = Standing.objects.filter(
        listed("model__"),
        metric_version=version,
        measure=measure,
        slice__in=names,
        population=everybody,
    ).select_related("model", "result")
    boards: dict[str, list[Standing]] = {name: [] for name in names}
    for row in rows:
        boards[row.slice].append(row)
    return {name: Side(version, MEASURES[measure], name, everybody, board) for name, board in boards.items()}
