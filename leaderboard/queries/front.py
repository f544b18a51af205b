"""The answers of the front page: which known models lead, and whether their scores are still comparable."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    Provenance,
    Scoring,
    Standing,
    Work,
    is_listed,
)
from leaderboard.queries.drift import Condition, LastCheck, list_last_checks
from leaderboard.queries.news import MOST_PUBLICATIONS, Pair, list_successions, overall_boards
from leaderboard.rankings.changes import count_gains, read_ranks
from leaderboard.rankings.movement import read_causes
from leaderboard.rankings.populations import ranked_populations
from leaderboard.rankings.ranking import PopulationRows, Ranking, Row
from leaderboard.rankings.rows import entries_of_all, read_rankings
from leaderboard.rankings.selection import Selection
from leaderboard.rankings.slices import slices_of
from leaderboard.rankings.versions import current_versions
from leaderboard.rankings.view import Filters, View
from leaderboard.state_memo import once_a_state
from scoring.metrics.formulas import FORMULAS, MEASURES, slices_in_order
from scoring.metrics.safety import ALL, AVERAGE, DISTILLED

LEADERS = 5
VIEW = View(filters=Filters(without=LanguageModel.Source.BUNDLED), columns=(), rows=LEADERS)


@dataclass(frozen=True, slots=True)
class Leaders:
    """The first known models of a family of harm: those of the population that has the most of them.

    leading_miniatures: how many of its leading group come with the board, and so are not listed.
    """

    ranking: Ranking
    group: PopulationRows
    leading_miniatures: int

    @property
    def title(self) -> str:
        """The family's."""
        return self.ranking.metric.formula.title

    @property
    def version(self) -> MetricVersion:
        """The one that the numbers are of."""
        return self.ranking.versions[0]

    @property
    def rows(self) -> list[Row]:
        return self.group.rows

    @property
    def leading_words(self) -> str:
        """The leading group, as far as intervals tell it."""
        if all(row.rank_low is None for row in self.rows):
            if self.version.measured:
                return "Ranges of ranks are not known: too few texts, or their files are not read yet."
            return "The source compares no pairs of models: neighbours may not differ."
        if self.group.is_undecided:
            return f"None of the {self.group.population_words} can be told from the best."
        count, miniatures = self.group.leader_count, self.leading_miniatures
        if count == 1 and miniatures:
            return f"One of {self.group.population_words} leads alone: a miniature, which is not listed here."
        if miniatures:
            words = (
                "1 of them a miniature, which is" if miniatures == 1 else f"{miniatures} of them miniatures, which are"
            )
            return f"{count} of {self.group.population_words} cannot be told from the best, {words} not listed here."
        if count > 1:
            return f"The first {count} of {self.group.population_words} cannot be told apart."
        return f"One of {self.group.population_words} leads alone." if count else ""


@dataclass(frozen=True, slots=True)
class LastRescoring:
    """The last time that a version took over from another, and why. models: those of both; moved: with another rank."""

    version: MetricVersion
    models: int
    moved: int
    cause: str

    @property
    def at(self) -> datetime | None:
        """When readers saw the new version first; None for figures of a paper, which came when it was entered."""
        return self.version.published_at if self.version.measured else None


@dataclass(frozen=True, slots=True)
class ScorersToday:
    """What is known of the scorers that were ever checked. others: conditions but for stable, with their counts."""

    checked: list[LastCheck]
    stable: int
    others: list[tuple[Condition, int]]
    last_rescoring: LastRescoring | None

    @property
    def last_check(self) -> datetime | None:
        """When the newest check ended."""
        return max((check.finished_at for check in self.checked if check.finished_at), default=None)


@once_a_state()
def list_leaders(metrics: list[Metric]) -> list[Leaders]:
    """The leaders of each formula that ranks known models, in the order of the formulas; a constant number of queries.

    metrics: those of `metrics_with_versions`.
    """
    versions = choose_leading_versions(metrics)
    slices = slices_of({version: version.first_measure for _, version in versions})
    selections = [
        Selection(
            metric,
            [version],
            MEASURES[version.first_measure],
            slices[version.pk][0],
            slices,
            ranked_populations([version]),
        )
        for metric, version in versions
        if version.pk in slices
    ]
    miniatures = count_leading_miniatures(selections)
    boards = []
    for ranking in read_rankings(selections, VIEW):
        groups = [group for group in ranking.groups if group.rows]
        if groups:
            group = max(groups, key=lambda group: group.fitting)
            boards.append(Leaders(ranking, group, miniatures[ranking.versions[0].pk, group.population]))
    return boards


def count_leading_miniatures(selections: list[Selection]) -> Counter[tuple[int, str]]:
    """How many models that come with the board are among the first, by version and population; in one query."""
    standings = Standing.objects.filter(
        entries_of_all(selections), is_listed("model__"), model__source=LanguageModel.Source.BUNDLED, rank_low=1
    )
    counts = standings.order_by().values_list("metric_version", "population").annotate(Count("pk"))
    return Counter({(version, population): count for version, population, count in counts})


def choose_leading_versions(metrics: Iterable[Metric]) -> list[tuple[Metric, MetricVersion]]:
    """One current version of each formula: one with LEADERS known models or as many as there are; measured first."""
    counts = count_known_models()
    by_formula: dict[str, list[tuple[Metric, MetricVersion]]] = {name: [] for name in FORMULAS}
    for metric in metrics:
        by_formula[metric.formula_name] += [
            (metric, version) for version in current_versions(metric, Provenance.values) if counts[version.pk]
        ]
    return [
        max(pairs, key=lambda pair: (min(counts[pair[1].pk], LEADERS), pair[1].measured))
        for pairs in by_formula.values()
        if pairs
    ]


def count_known_models() -> Counter[int]:
    """How many models that do not come with the board each version has scored, by version."""
    scorings = Scoring.objects.filter(is_listed("model__"), state=Work.State.DONE).exclude(
        model__source=LanguageModel.Source.BUNDLED
    )
    return Counter(dict(scorings.order_by().values_list("metric_version").annotate(Count("pk"))))


@once_a_state(lambda version: version.pk)
def list_demographics(version: MetricVersion) -> list[str]:
    """The demographics that a version ranks models on by any measure, in order; in one query."""
    standings = Standing.objects.filter(metric_version=version).order_by()
    names = slices_in_order(standings.values_list("slice", flat=True).distinct())
    return [name for name in names if name not in (ALL, AVERAGE, *DISTILLED)]


def read_scorers_today() -> ScorersToday:
    """What the checks say, and what the last rescoring moved."""
    last_checks = list_last_checks()
    counts = Counter(check.condition for check in last_checks)
    others = [(condition, counts[condition]) for condition in Condition if condition is not Condition.STABLE]
    return ScorersToday(
        last_checks,
        counts[Condition.STABLE],
        [(condition, count) for condition, count in others if count],
        find_last_rescoring(),
    )


@once_a_state()
def find_last_rescoring() -> LastRescoring | None:
    """The newest of the board's own rescorings; else of those that its sources publish."""
    newest_first = list_successions(None)[::-1][:MOST_PUBLICATIONS]
    for pair in sorted(newest_first, key=lambda pair: not pair[1].measured):
        gains = [gain for board in count_moves(pair) for gain in board.values()]
        if gains:  # hardly ever none: comparing all of them would take longest here
            version = pair[1]
            cause = read_causes([version.pk]).get(version.pk, "") or version.source
            return LastRescoring(version, len(gains), sum(gain != 0 for gain in gains), cause)
    return None


def count_moves(pair: Pair) -> list[dict[str, int]]:
    """The ranks that each model gained from one version to the next, on each board that both have; in three queries."""
    boards = overall_boards([pair])
    ranks = read_ranks([key for keys in boards for key in keys])
    return [count_gains(ranks[old], ranks[new]) for old, new in boards if old in ranks and new in ranks]
