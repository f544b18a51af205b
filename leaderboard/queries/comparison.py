"""Two scorers on the same continuations: do they agree on texts, and do they order the models alike?"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from leaderboard.models import MetricVersion, Provenance
from leaderboard.queries.scorer_figures import (
    AttributeFigures,
    TextScores,
    attribute_figures,
    compare_prompts,
    farthest_texts,
)
from leaderboard.rankings import populations
from leaderboard.rankings.changes import BoardKey, Side, compare_sides, read_sides
from leaderboard.rankings.slices import ranked_slices
from leaderboard.rankings.versions import NoRanking
from leaderboard.services.joined_scores import TEXT, Pair, by_attribute, join_tables, shared_scorings
from scoring.metrics import agreement
from scoring.metrics.agreement import AttributeAgreement
from scoring.metrics.lexicon_frequency import ANY
from scoring.metrics.measures import slice_of
from scoring.metrics.safety import ALL
from scoring.refusals import Refused
from scoring.statistics.rank_changes import RankChanges

MOST_TEXTS = 200_000  # of which correlations are taken: their intervals are then well below 0.01 wide

Names = list[tuple[str, str]]


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
    prompts: agreement on the prompts, empty where one of the two has scored none.
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
    figures: list[AttributeFigures]
    prompts: list[AttributeAgreement]

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON can hold it."""
        return {
            "a": describe_version(self.first),
            "b": describe_version(self.second),
            "runs": self.runs,
            "runs_in_all": self.runs_in_all,
            "texts": self.texts,
            "texts_in_all": self.texts_in_all,
            "same_attribute_names": self.namesakes,
            "attributes": [item.as_json() for item in self.attributes],
            "prompts": [item.as_json() for item in self.prompts],
            "figures": [item.as_json() for item in self.figures],
            "rank_agreement": [
                {
                    "a": {"measure": item.first.measure.key, "slice": item.first.slice},
                    "b": {"measure": item.second.measure.key, "slice": item.second.slice},
                    **item.changes.as_json(),
                }
                for item in self.ranks
            ],
        }


def describe_version(version: MetricVersion) -> dict[str, Any]:
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
    """The one of `versions` called SLUG@VERSION; SLUG alone is the current one. Raises Refused."""
    slug, _, number = name.partition("@")
    of_metric = [version for version in versions if version.metric.slug == slug]
    for version in of_metric:
        if str(version.number) == number or (not number and version.status == MetricVersion.Status.CURRENT):
            return version
    known_versions = (
        ", ".join(f"{version.metric.slug}@{version.number}" for version in of_metric or versions) or "none yet"
    )
    raise Refused(f"{name!r} is no published metric or version with scores of texts; there is {known_versions}")


def comparable_versions() -> list[MetricVersion]:
    """Published, measured versions whose scorer judged texts, in one query."""
    versions = (
        MetricVersion.objects.filter(provenance=Provenance.MEASURED)
        .filter(published_at__isnull=False)
        .select_related("metric", "protocol__evaluation_set", "prompt_scores")
        .order_by("metric__position", "-number")
    )
    return [version for version in versions if version.asked_scorer]


def compare(
    first: MetricVersion, second: MetricVersion, most_texts: int = MOST_TEXTS, most_runs: int | None = None
) -> Comparison:
    """Compare the scorers of two versions on the continuations that both judged.

    The cost is reading two artefacts a run, one run at a time, and then correlations of `most_texts` texts at most,
    spaced evenly over all runs and within each. `most_runs` bounds the reading too: so many runs, spaced evenly by the
    models' names. Raises Refused; FileNotFoundError where an artefact is gone.
    """
    if first == second:
        raise Refused(f"{first} is on both sides: choose another metric, or another version of it")
    pairs = shared_scorings(first, second)
    if not pairs:
        raise Refused(
            f"{first} and {second} have scored no run in common: choose two metrics of one protocol and evaluation set "
            "with entries of the same models"
        )
    selection = evenly(pairs, most_runs or len(pairs))
    texts = sum(rows_of(pair) for pair in selection)
    names, namesakes, x, y, farthest = collect(selection, max(1, most_texts // len(selection)))
    return Comparison(
        first,
        second,
        runs=len(selection),
        runs_in_all=len(pairs),
        texts=len(next(iter(x.values()))),
        texts_in_all=texts if len(selection) == len(pairs) else sum(map(rows_of, pairs)),
        namesakes=namesakes,
        attributes=agreement.compare_scorers(x, y, names, (first.thresholds, second.thresholds)),
        ranks=rank_agreement(first, second, names),
        figures=attribute_figures(selection, names, (x, y), farthest),
        prompts=compare_prompts(first, second, names),
    )


def evenly(pairs: list[Pair], most: int) -> list[Pair]:
    """At most so many of the pairs, evenly spaced."""
    if len(pairs) <= most:
        return pairs
    return [pairs[int(number)] for number in np.linspace(0, len(pairs) - 1, most)]


def rows_of(pair: Pair) -> int:
    """Continuations that both scorings have a row for."""
    return min(scoring.artefact.rows if scoring.artefact else 0 for scoring in pair)


def collect(
    pairs: list[Pair], most: int
) -> tuple[Names, bool, agreement.Scoring, agreement.Scoring, list[list[TextScores]]]:
    """The attributes to compare, whether they are namesakes, the scores of `most` continuations of each pair, and of
    each attribute the continuations of each model whose scores differ most.
    """
    names: Names = []
    namesakes = False
    parts: tuple[list[agreement.Scoring], list[agreement.Scoring]] = ([], [])
    farthest: list[list[TextScores]] = []
    for pair in pairs:
        tables = join_tables(pair, most)
        first, second = pair_scores = by_attribute(tables[0]), by_attribute(tables[1])
        if not names:
            names = agreement.matching_attributes(list(first), list(second))
            namesakes = bool(names)
            names = names or [(main_attribute(first), main_attribute(second))]
            farthest = [[] for _ in names]
        keys = tables[0].select(TEXT)
        for texts, (name, counterpart) in zip(farthest, names, strict=True):
            texts += farthest_texts(pair[0].model, keys, first[name], second[counterpart])
        for side_parts, scores, side_names in zip(parts, pair_scores, zip(*names, strict=True), strict=True):
            side_parts.append({name: scores[name] for name in side_names})
    x, y = (
        {name: np.concatenate([part[name] for part in side_parts]) for name in side_parts[0]} for side_parts in parts
    )
    return names, namesakes, x, y, farthest


def main_attribute(scores: agreement.Scoring) -> str:
    """What a scorer says first; of a lexicon, whether any category matches."""
    return ANY if ANY in scores else next(iter(scores))


def rank_agreement(first: MetricVersion, second: MetricVersion, names: Names) -> list[RankAgreement]:
    """The boards under both, on the measure shown first, over all prompts of each attribute; in a few queries."""
    measures = {first: first.first_measure, second: second.first_measure}
    if measures[first] in second.metric.formula.measures:
        measures[second] = measures[first]
    slices = ranked_slices(measures)
    pairs = [
        (one, other)
        for name, counterpart in names
        if (one := over_all(slices[first.pk], name)) and (other := over_all(slices[second.pk], counterpart))
    ]
    if not pairs and all(slices.values()):
        pairs = [(slices[first.pk][0], slices[second.pk][0])]
    keys = [
        (
            BoardKey(first.pk, measures[first], one, populations.ALL),
            BoardKey(second.pk, measures[second], other, populations.ALL),
        )
        for one, other in pairs
    ]
    sides = read_sides([key for pair in keys for key in pair], (first, second))
    agreements = []
    for old_key, new_key in keys:
        if old_key in sides and new_key in sides:
            try:
                changes = compare_sides(sides[old_key], sides[new_key])
            except NoRanking:  # the two are better in different directions: an order has no counterpart
                continue
            agreements.append(RankAgreement(sides[old_key], sides[new_key], changes))
    return agreements


def over_all(slices: list[str], attribute: str) -> str | None:
    """The slice of an attribute over all prompts, as each formula names it."""
    return next((name for name in (slice_of(attribute, ALL), attribute) if name in slices), None)
