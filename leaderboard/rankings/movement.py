"""How the models of a ranking moved since the version before, and why there is another version."""

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.models import MetricVersion, Rescoring
from leaderboard.rankings.changes import BoardKey, count_gains, read_ranks
from leaderboard.rankings.selection import Selection, key_of_all
from leaderboard.rankings.versions import published_versions
from leaderboard.state_memo import once_a_state


@dataclass(frozen=True, slots=True)
class RankMovement:
    """What a version moved against the one before it, of the same provenance.

    gained: ranks gained by population and model, among the models of both versions; negative for those that fell.
    cause: why the version was opened, as recorded; "" where nothing is.
    """

    before: MetricVersion
    after: MetricVersion
    gained: dict[tuple[str, str], int]
    cause: str

    @property
    def changed_count(self) -> int:
        """How many ranks changed."""
        return sum(change != 0 for change in self.gained.values())


def find_predecessor(selection: Selection) -> MetricVersion | None:
    """The published version before the one that is ranked, of the same provenance; None where there is none.

    Nor for a past day or for numbers of both provenances, whose ranks are others than the published ones.
    """
    if selection.is_mixed or selection.end is not None:
        return None
    version = selection.versions[0]
    earlier = [
        other
        for other in published_versions(selection.metric)
        if other.provenance == version.provenance and other.number < version.number
    ]
    return earlier[-1] if earlier else None


@once_a_state(key_of_all)
def read_movements(selections: Sequence[Selection]) -> dict[int, RankMovement]:
    """The movements of rankings that have a predecessor, by version; in two queries, none where none has."""
    pairs = [(selection, earlier) for selection in selections if (earlier := find_predecessor(selection))]
    if not pairs:
        return {}
    boards = [
        (board_key(predecessor, selection, population), board_key(selection.versions[0], selection, population))
        for selection, predecessor in pairs
        for population in selection.populations
    ]
    ranks = read_ranks([key for pair in boards for key in pair])
    causes = read_causes([selection.versions[0].pk for selection, _ in pairs])
    gains: dict[int, dict[tuple[str, str], int]] = {}
    for old_board, new_board in boards:
        if old_board in ranks and new_board in ranks:
            moves = count_gains(ranks[old_board], ranks[new_board])
            by_model = {(new_board.population, slug): gain for slug, gain in moves.items()}
            gains.setdefault(new_board.version, {}).update(by_model)
    return {
        version.pk: RankMovement(predecessor, version, gains[version.pk], causes.get(version.pk, "") or version.source)
        for selection, predecessor in pairs
        if (version := selection.versions[0]).pk in gains
    }


def board_key(version: MetricVersion, selection: Selection, population: str) -> BoardKey:
    """The board of a version that shows what is selected."""
    return BoardKey(version.pk, selection.measure.key, selection.slice, population)


def read_causes(versions: Sequence[int]) -> dict[int, str]:
    """Why versions were opened: what a check found, else the reason that an operator gave; in one query."""
    rows = (
        Rescoring.objects.filter(to_version__in=versions, state=Rescoring.State.PUBLISHED)
        .order_by("pk")
        .values_list("to_version", "to_version__opened_because__statistics__decided_by", "reason")
    )
    return {version: decided_by or reason for version, decided_by, reason in rows}
