"""What is exported of a ranking, whatever the format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from leaderboard.models import MetricVersion, Result
from leaderboard.rankings.corrected import Correction
from leaderboard.rankings.populations import population_in_words
from leaderboard.rankings.ranking import Ranking, Row
from scoring.metrics.measures import Measure


@dataclass(frozen=True)
class Sheet:
    """What is exported: rows with their population, in order. `columns`: slices beside. `extras`: names of EXTRAS.

    sizes: by population, how many models are ranked in it, whatever is exported.
    unranked: numbers of entries that lack too many scores to be ranked; they come last, without a rank.
    """

    versions: Sequence[MetricVersion]
    measure: Measure
    slice: str
    as_of: date | None
    rows: Sequence[tuple[str, Row]]
    sizes: Mapping[str, int]
    unranked: Sequence[Result]
    columns: Sequence[str]
    extras: Sequence[str]
    correction: Correction | None = None

    @property
    def populations(self) -> list[str]:
        """The populations of its ranks, in words, each once."""
        by_kind = self.versions[0].metric.formula.by_kind
        return [
            population_in_words(self.sizes[population], population, by_kind)
            for population in dict.fromkeys(population for population, _ in self.rows)
        ]

    @property
    def is_mixed(self) -> bool:
        """Whether numbers of different provenance stand in it."""
        return len(self.versions) > 1


def sheet_of(ranking: Ranking, extras: Sequence[str] | None = None) -> Sheet:
    """All rows of a ranking. extras: names of EXTRAS to write; where None, those that its page shows."""
    rows = [(group.population, row) for group in ranking.groups for row in group.rows]
    return Sheet(
        ranking.versions,
        ranking.measure,
        ranking.slice,
        ranking.selection.day,
        rows,
        {group.population: group.size for group in ranking.groups},
        ranking.unranked,
        ranking.columns,
        ranking.extras if extras is None else extras,
        ranking.correction,
    )


def place_of(version: MetricVersion) -> str:
    """Where and when the numbers of a version were made."""
    return f"measured here, {version.published_at:%Y-%m-%d}" if version.measured else version.source


def indifferent_of(sheet: Sheet, row: Row) -> float | None:
    """The value of an indifferent model; None where it is not known."""
    return row.indifferent if sheet.measure.neutral is None else sheet.measure.neutral
