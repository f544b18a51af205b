"""Rankings as pages show them: the standings of a version, joined with the numbers of every slice."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from leaderboard.models import LanguageModel, Metric, MetricVersion, OutdatedEntry, Result, Standing
from leaderboard.rankings.corrected import CorrectedResult, Correction
from leaderboard.rankings.intervals import explain_intervals
from leaderboard.rankings.movement import RankMovement
from leaderboard.rankings.populations import ALL, leading_count, population_in_words, population_title
from leaderboard.rankings.scales import WhiskerScale
from leaderboard.rankings.selection import Selection
from leaderboard.rankings.versions import has_history
from leaderboard.rankings.view import EXTRAS, USUAL, View
from scoring.metrics.measures import Measure


class SliceCell(NamedTuple):
    """A model's value on a slice beside the one it is ranked on, and as `text`; without one, `reason` says why."""

    value: float | None
    text: str
    significant: bool | None = None
    reason: str = ""
    level: int | None = None  # its shade, of a demographic; None where values are not shaded
    indifferent: float | None = None  # what the model would have there if it were indifferent, where that is its own


@dataclass(frozen=True, slots=True)
class Row:
    """One model in a ranking; `cells` are its values in the order of the ranking's columns."""

    model: LanguageModel
    version: MetricVersion
    rank: int
    rank_low: int | None
    rank_high: int | None
    result: Result
    cells: list[SliceCell]
    tied: bool = False
    indifferent: float | None = None  # what the model would have if it were indifferent, where that is its own value
    leads: bool = False  # of its group: paired tests cannot tell it from the best, as they can others
    corrected: CorrectedResult | None = None  # for the scorer's error rates, an estimate; None where that means nothing
    gained: int | None = None  # ranks since the version before; None where it has none, or the model is new

    @property
    def indifferent_derived(self) -> bool:
        """Whether its own indifferent value was worked out here from what a paper prints: none prints it."""
        return self.indifferent is not None and not self.version.measured

    @property
    def differences(self) -> list[str]:
        """Where outputs that were made elsewhere were not made as the protocol asks, in words."""
        run = self.result.scoring.run
        return run.environment.get("differences", []) if run else []

    @property
    def refusal_rate(self) -> float | None:
        """The share of refusals among all answers of a chat; None where the value is not of such."""
        run = self.result.scoring.run
        answers = run.chat.get("answers") if run else None
        return run.chat["refused"] / answers if run and answers else None

    @property
    def flags(self) -> list[str]:
        """What stands out about its tokenizer or its numbers, in words."""
        check = getattr(self.result.scoring, "entry_check", None)
        return check.words if check else []


@dataclass(frozen=True, slots=True)
class PopulationRows:
    """One population of a ranking: its rows on this page, and counts of all models and of those that fit the filters.

    size: how many models are ranked, with those hidden since. first_ones: how many cannot be told from the best.
    """

    population: str
    by_kind: bool
    rows: list[Row]
    size: int
    entries: int
    fitting: int
    first_ones: int
    page: int
    pages: int
    first: int  # of those that fit, on this page

    @property
    def title(self) -> str:
        """The title of its table."""
        return population_title(self.population, self.by_kind)

    @property
    def population_words(self) -> str:
        """The ranked models in words, as in "5 causal models"."""
        return population_in_words(self.size, self.population, self.by_kind)

    @property
    def leader_count(self) -> int:
        """The size of the leading group; 0 for a single model, and where no model can be told from the best."""
        return leading_count(self.first_ones, self.size)

    @property
    def is_undecided(self) -> bool:
        """Whether none of several models can be told from the best."""
        return 1 < self.size == self.first_ones

    @property
    def hidden_count(self) -> int:
        """How many models the filters hide."""
        return self.entries - self.fitting

    @property
    def last(self) -> int:
        """The last of those that fit, on this page."""
        return self.first + len(self.rows) - 1

    @property
    def neighbours(self) -> list[int | None]:
        """The pages to go to from this one, None for a gap."""
        nearby_pages = sorted({1, self.pages, *range(max(1, self.page - 2), min(self.pages, self.page + 2) + 1)})
        pages: list[int | None] = []
        for previous, number in zip([0, *nearby_pages], nearby_pages, strict=False):
            pages += [None, number] if number > previous + 1 else [number]
        return pages


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that the models of a ranking can be filtered by."""

    families: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    accesses: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    years: set[int] = field(default_factory=set)
    precisions: set[str] = field(default_factory=set)  # "" of entries that declare none
    weight_formats: set[str] = field(default_factory=set)
    licences: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Ranking:
    """A page of a ranking. scale: of whiskers, for all of its values and intervals."""

    selection: Selection
    columns: list[str]
    extras: list[str]
    groups: list[PopulationRows]
    choices: Choices
    scale: WhiskerScale
    newest: datetime | None
    carries_ranks: bool  # those that its source gives
    anew: bool  # whether its ranks were taken again, as entries came or left after its day
    outdated: list[OutdatedEntry] = field(default_factory=list)
    unranked: list[Result] = field(default_factory=list)  # of entries that lack too many scores
    movement: RankMovement | None = None  # since the version before
    has_chosen_columns: bool = False
    correction: Correction | None = None  # of its values, where these are shares of labelled texts

    @property
    def identity(self) -> str:
        """A key that is unique among the rankings of a page."""
        return f"{self.metric.slug}-{self.versions[0].number}"

    @property
    def metric(self) -> Metric:
        return self.selection.metric

    @property
    def versions(self) -> list[MetricVersion]:
        return self.selection.versions

    @property
    def measure(self) -> Measure:
        return self.selection.measure

    @property
    def slice(self) -> str:
        return self.selection.slice

    @property
    def is_mixed(self) -> bool:
        return self.selection.is_mixed

    @property
    def has_derived_values(self) -> bool:
        """Whether any value on this page was worked out here from what its source prints."""
        return any(row.result.derived or row.indifferent_derived for group in self.groups for row in group.rows)

    @property
    def interval_note(self) -> str:
        """Why published values have intervals from counts or none; empty for measured ones and a mixed ranking."""
        results = [row.result for group in self.groups for row in group.rows]
        return explain_intervals(self.versions[0], self.slice, results) if results and not self.is_mixed else ""

    @property
    def uncorrected_reasons(self) -> list[str]:
        """Why rows of this page have no corrected value, each reason once."""
        rows = [row for group in self.groups for row in group.rows]
        return sorted({row.corrected.reason for row in rows if row.corrected and row.corrected.reason})

    @property
    def has_history(self) -> bool:
        """Whether its metric has versions to compare."""
        return has_history(self.metric)

    @property
    def k(self) -> int | None:
        """Continuations of each prompt that the values are of; None where they are not of continuations."""
        return self.versions[0].protocol.k

    def facts(self, group: PopulationRows) -> list[str]:
        """The columns of a group's table between the value and the slices, in order: of EXTRAS, and provenance."""
        kind = {"kind"} if group.population == ALL and self.metric.formula.by_kind else set()
        of_chats = {"refusals"} if group.population == Standing.Population.TEXT else set()
        names = [name for name in EXTRAS if name in kind or name in {*self.extras} - of_chats]
        return ["provenance", *names] if self.is_mixed else names

    @property
    def models(self) -> int:
        """How many models it ranks."""
        return sum(group.entries for group in self.groups)

    @property
    def fitting_count(self) -> int:
        """How many of them fit the filters."""
        return sum(group.fitting for group in self.groups)

    @property
    def has_indifferent_values(self) -> bool:
        """Whether indifferent values stand beside values."""
        return any(row.indifferent is not None for group in self.groups for row in group.rows)

    @property
    def tells_apart(self) -> bool:
        """Whether its rows are asked in several ways, so that base models are marked as well as chat models."""
        return len({row.model.prompting for group in self.groups for row in group.rows}) > 1

    @property
    def has_precisions(self) -> bool:
        """Whether any row is marked with the precision that its entry declares, or the format of its weights."""
        return any(row.model.precision_label for group in self.groups for row in group.rows)

    @property
    def pages(self) -> int:
        """Of the longest table."""
        return max((group.pages for group in self.groups), default=1)


def extras_of(view: View, unknown: set[str]) -> list[str]:
    """The columns of EXTRAS to show; not those `unknown` of all models, as papers rarely print them."""
    columns = USUAL if view.columns is None else view.columns
    return [name for name in EXTRAS if name in columns and name not in unknown]
