"""Ranks that papers print, with gaps, shared or for some models only: every way of counting moves says the same."""

import pytest

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Result
from leaderboard.rankings.changes import record_of
from leaderboard.rankings.history import lines as list_lines
from leaderboard.rankings.history import list_moves, list_steps
from leaderboard.rankings.movement import read_movements
from leaderboard.rankings.selection import select_ranking
from leaderboard.rankings.versions import with_versions
from leaderboard.services.publish import publish_standings
from tests.leaderboard.test_history import MEASURE, SLICE, page, profanity, said, table, version_of

__all__ = ["profanity"]

pytestmark = pytest.mark.django_db

WAYS = ("record", "history", "ranking")
Ranks = dict[str, int | None]  # None: the source prints none
# What two sources print, and how many ranks each model of both gains.
PRINTED: dict[str, tuple[Ranks, Ranks, dict[str, int]]] = {
    "a gap that is closed": ({"a": 1, "b": 2, "c": 4}, {"a": 1, "b": 2, "c": 3}, {"a": 0, "b": 0, "c": 0}),
    "a gap that is opened": ({"a": 1, "b": 2, "c": 3}, {"b": 2, "a": 5, "c": 9}, {"a": -1, "b": 1, "c": 0}),
    "gaps before and after": ({"a": 1, "b": 3, "c": 7}, {"a": 2, "c": 4, "b": 8}, {"a": 0, "b": -1, "c": 1}),
    "ranks without gaps after shared ones": (
        {"a": 1, "b": 1, "c": 2, "d": 3},
        {"a": 1, "b": 1, "c": 3, "d": 4},
        dict.fromkeys("abcd", 0),
    ),
    "models of one of them only": (
        {"a": 1, "x": 2, "b": 4, "c": 5},
        {"b": 1, "a": 2, "y": 4, "c": 9},
        {"a": -1, "b": 1, "c": 0},
    ),
    "no rank of some models": ({"a": 1, "b": 2, "c": None}, {"a": 1, "b": 2, "c": 4}, {"a": 0, "b": 0, "c": 0}),
    "no ranks before": ({"a": None, "b": None, "c": None}, {"b": 1, "a": 3, "c": 4}, {"a": -1, "b": 1, "c": 0}),
}


def print_version(metric: Metric, ranks: Ranks) -> MetricVersion:
    """A version of published figures whose source prints these ranks; values are in the order of the models here."""
    values = {name: (number + 1) / 10 for number, name in enumerate(ranks)}
    version = version_of(metric, values, provenance=Provenance.PUBLISHED, source="A paper")
    for name, rank in ranks.items():
        results = Result.objects.filter(scoring__metric_version=version, scoring__model__name=name)
        results.update(published_rank=rank)
    publish_standings(version)
    return version


def count_moves(metric: Metric) -> dict[str, dict[str, int]]:
    """The ranks that each model gained from the first version to the second, by each way of counting."""
    slugs = dict(LanguageModel.objects.values_list("slug", "name"))
    steps = list_steps(metric)
    lines = list_lines(steps, MEASURE, {step.version.pk: SLICE for step in steps}, "all")
    (movement,) = read_movements([select_ranking(metric, measure=MEASURE, name=SLICE)]).values()
    return {
        "record": {model.model: model.change for model in record_of(metric, MEASURE, SLICE).changes.models},
        "history": {slugs[slug]: moves[0] for slug, moves in list_moves(lines).items() if moves[0] is not None},
        "ranking": {slugs[slug]: gain for (_, slug), gain in movement.gained.items()},
    }


@pytest.mark.parametrize(("before", "after", "gained"), PRINTED.values(), ids=PRINTED)
def test_moves_are_counted_among_the_models_of_both_by_the_order_that_is_printed(profanity, before, after, gained):
    for ranks in (before, after):
        print_version(profanity, ranks)
    assert count_moves(with_versions(profanity)) == dict.fromkeys(WAYS, gained)


def test_a_model_that_was_hidden_since_leaves_a_gap_that_moves_nobody(profanity):
    for ranks in ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 4}):
        print_version(profanity, ranks)
    LanguageModel.objects.filter(slug="b").update(hidden_note="asked for")
    assert count_moves(with_versions(profanity)) == {way: {"a": 0, "c": 0} for way in WAYS}


def test_the_record_has_the_printed_ranks_beside_those_among_the_models_of_both(profanity):
    for ranks in ({"a": 1, "b": 2, "c": 4}, {"a": 1, "b": 2, "c": 3}):
        print_version(profanity, ranks)
    last = record_of(with_versions(profanity), MEASURE, SLICE).changes.models[-1]
    assert (last.model, last.from_rank, last.to_rank) == ("c", 3, 3)
    assert (last.from_board_rank, last.to_board_rank) == (4, 3)


def test_the_page_of_the_history_shows_versions_of_which_one_prints_ranks_of_some_models_only(client, profanity):
    for ranks in ({"a": 1, "b": 2, "c": None}, {"b": 1, "a": 2, "c": 4}):
        print_version(profanity, ranks)
    html = page(client, f"/history/?metric={profanity.slug}&measure={MEASURE}&slice={SLICE}")
    assert [row[:4] for row in table(html, "Table of changes")] == [
        ["b", "2", "1", "+1"],
        ["a", "1", "2", "−1"],
        ["c", "3", "4", "0"],
    ]
    text = said(html)
    assert "2 of 3 ranks changed between version 1 and version 2, counted among the models of both." in text
    assert "gaps in printed ranks, move nobody" in text
