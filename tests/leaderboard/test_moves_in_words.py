"""Changes between boards, in numbers and in sentences, from boards that nobody has to measure."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leaderboard.models import Metric, MetricVersion, Protocol
from leaderboard.queries.front import Leaders
from leaderboard.rankings.changes import (
    BoardEntry,
    Record,
    Side,
    compare_sides,
    count_gains,
    describe_side,
    label_models,
    list_entries,
)
from leaderboard.rankings.history import HistoryStep, ModelHistory, PastPlace, VersionChanges, list_moves, summary
from leaderboard.rankings.versions import NoRanking, choose_history, current_at, published_before
from leaderboard.rankings.words import coefficient
from scoring.metrics.formulas import MEASURES
from scoring.statistics.rank_changes import Entry
from tests.leaderboard.test_ranking_rows import group_of, ranking_of, row_of, version_with

pytestmark = pytest.mark.either_database

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


def side_with(number: int, values: dict[str, float], measure: str = "toxic_fraction", **fields: Any) -> Side:
    metric = Metric(slug="harm", title="Harm", formula_name="toxicity")
    options = {"scorer": "judge", "scorer_fingerprint": "f" * 64, "status": "current"} | fields
    version = MetricVersion(metric=metric, number=number, protocol=Protocol(parameters={"k": 25}), **options)
    entries = [BoardEntry(name, name, value, place, None) for place, (name, value) in enumerate(values.items(), 1)]
    return Side(version, MEASURES[measure], "insult:all", "all", entries)


def test_gained_ranks_count_only_the_models_of_both_boards():
    assert count_gains({"a": 1, "b": 2, "c": 4, "gone": 3}, {"c": 1, "new": 2, "a": 3, "b": 4}) == {
        "a": -1,
        "b": -1,
        "c": 2,
    }
    assert count_gains({"a": 1, "b": 1, "c": 3}, {"a": 1, "b": 2, "c": 2}) == {"a": 0, "b": -1, "c": 1}


def test_moves_are_told_from_each_version_to_the_next_and_not_of_models_of_one_alone():
    def history(slug: str, *ranks: int | None) -> ModelHistory:
        places = tuple(None if rank is None else PastPlace(rank, None, None, 0.5) for rank in ranks)
        return ModelHistory(slug, slug, "", places, (None,) * len(ranks))

    lines = [history("a", 1, 3, 1), history("b", 2, 1, None), history("c", None, 2, 2), history("d", 3, 4, 3)]
    assert list_moves(lines) == {"a": [-1, 1], "b": [1, None], "c": [None, -1], "d": [0, 0]}
    assert list_moves([history("a", 1)]) == {"a": []}
    assert lines[1].newest == 1
    assert lines[1].ranks == [2, 1, None]
    assert (PastPlace(2, None, None, 0.5).interval, PastPlace(2, 1, 3, 0.5).interval[::2]) == ("", "13")


def test_models_that_share_a_name_are_called_by_their_slugs():
    first, second = side_with(1, {"a": 0.1, "b": 0.2}), side_with(2, {"a": 0.1})
    second.entries.append(BoardEntry("other", "b", 0.3, 2, None))
    assert label_models(first, second) == {"a": "a", "b": "b", "other": "other"}
    second.entries.append(BoardEntry("third", "c", 0.4, 3, None))
    assert label_models(first, second)["third"] == "c"


def test_printed_ranks_decide_only_where_the_source_gives_them_for_a_whole_board():
    entries = [BoardEntry("a", "A", 0.1, 1, 1, "a of the paper"), BoardEntry("b", "B", 0.2, 2, 2)]
    side = side_with(1, {})
    side.entries.extend(entries)
    labels = {"a": "A", "b": "B"}
    assert list_entries(side, labels) == {"A": Entry(0.1, 1, "a of the paper"), "B": Entry(0.2, 2, "")}
    side.entries[1] = entries[1]._replace(printed_rank=None)
    assert list_entries(side, labels) == {"A": Entry(0.1, None, "a of the paper"), "B": Entry(0.2, None, "")}


def test_boards_whose_values_are_better_in_opposite_directions_are_not_compared():
    lower, higher = side_with(1, {"a": 0.1}), side_with(2, {"a": 0.1}, measure="safety_score")
    without = side_with(2, {"a": 0.1}, measure="safety_indifferent")
    for first, second in ((lower, higher), (higher, lower), (without, without)):
        with pytest.raises(NoRanking, match="are not better in the same direction") as caught:
            compare_sides(first, second)
        assert (caught.value.field, caught.value.value) == ("measure", second.measure.key)


def test_a_record_in_json_describes_both_boards():
    sides = side_with(1, {"a": 0.1, "b": 0.2}, status="superseded"), side_with(2, {"a": 0.3}, published_at=DAY)
    content = Record(*sides, compare_sides(*sides)).as_json()
    assert {key: content[key] for key in ("metric", "measure", "slice", "population", "distribution_shift")} == {
        "metric": "harm",
        "measure": "toxic_fraction",
        "slice": "insult:all",
        "population": "all",
        "distribution_shift": None,
    }
    assert content["from"] == {
        "metric": "harm",
        "version": 1,
        "status": "superseded",
        "provenance": "measured",
        "source": "",
        "scorer": "judge",
        "scorer_fingerprint": "f" * 64,
        "published_at": None,
        "measure": "toxic_fraction",
        "slice": "insult:all",
        "population_size": 2,
        "k": 25,
        "decimals": None,
    }
    assert content["to"] == describe_side(sides[1])
    assert (content["to"]["version"], content["to"]["published_at"]) == (2, DAY.isoformat())
    assert sides[0].population_words == "2 models"


def changes_of(old_values: dict[str, float], new_values: dict[str, float], **fields: Any) -> VersionChanges:
    sides = side_with(1, old_values, **fields), side_with(2, new_values)
    record = compare_sides(*sides)
    places = [{entry.slug: PastPlace(entry.rank, None, None, entry.value) for entry in side.entries} for side in sides]
    lines = {
        name: ModelHistory(name, name, "", tuple(board.get(name) for board in places), (None, None))
        for name in {**old_values, **new_values}
    }
    return VersionChanges(sides[0].version, sides[1].version, (0, 1), record, lines)


def test_changes_of_versions_are_told_in_sentences():
    changes = changes_of({"a": 0.1, "b": 0.2, "c": 0.3}, {"b": 0.1, "a": 0.15, "c": 0.3})
    record = changes.record
    assert summary(changes, 2) == [
        "2 of 3 ranks changed between version 1 and version 2.",
        "2 of 3 values changed.",
        "A value changed by 0.050 on average; most did that of b, by \N{MINUS SIGN}0.100.",
        "Of two models, both versions say the same about which is better in 67 of 100 cases: Kendall's tau of the two "
        f"orders {coefficient(record.kendall)}, Spearman's rho {coefficient(record.spearman)}.",
    ]
    assert [(line.slug, old.rank, new.rank) for line, old, new, _ in changes.rows] == [
        ("b", 2, 1),
        ("a", 1, 2),
        ("c", 3, 3),
    ]
    assert not changes.is_counted_anew


def test_changes_say_which_models_are_ranked_once_and_to_which_digits():
    many = {f"m{place:02}": 0.5 + place / 100 for place in range(14)}
    few = {"a": 0.1, "b": 0.2}
    sentences = summary(changes_of(few | many, few | {"new": 0.9}, decimals=2), 2)
    assert sentences[:2] == [
        "0 of 2 ranks changed between version 1 and version 2, counted among the models of both.",
        "0 of 2 values changed, as printed to 2 decimals.",
    ]
    names = ", ".join(list(many)[:12])
    assert sentences[-2:] == [
        f"Ranked under version 1 only, and in no rank counted here: {names} and 2 more.",
        "Ranked under version 2 only, and in no rank counted here: new.",
    ]
    assert not any("A value changed" in sentence for sentence in sentences)
    twelve = dict(list(many.items())[:12])
    assert summary(changes_of(few | twelve, few), 2)[-1].endswith(": " + ", ".join(twelve) + ".")
    assert summary(changes_of({"a": 0.1}, {"b": 0.1}), 2) == ["No model is ranked under both version 1 and version 2."]


def version_numbered(number: int, provenance: str, days: int | None = None) -> MetricVersion:
    published_at = None if days is None else DAY + timedelta(days=days)
    return MetricVersion(number=number, provenance=provenance, published_at=published_at)


@pytest.mark.parametrize(
    ("provenances", "number", "history"),
    [
        ("", "", []),
        ("m", "", [1]),
        ("p", "", [1]),
        ("pm", "", [2]),
        ("mppm", "", [1, 4]),
        ("mpp", "", [2, 3]),
        ("mppm", "3", [2, 3]),
        ("mppm", "4", [1, 4]),
        ("mpp", "1", [2, 3]),
        ("mppm", "9", [1, 4]),
    ],
)
def test_a_history_is_of_one_provenance_the_measured_one_where_it_has_two_versions(provenances, number, history):
    names = {"m": "measured", "p": "published"}
    versions = [version_numbered(place, names[letter]) for place, letter in enumerate(provenances, 1)]
    assert [version.number for version in choose_history(versions, number)] == history


def test_the_version_of_a_day_is_the_last_that_was_published_before_its_end():
    versions = [
        version_numbered(1, "measured", 0),
        version_numbered(2, "measured", 2),
        version_numbered(3, "published", 1),
        version_numbered(4, "measured"),
    ]
    measured = [current_at(versions, "measured", DAY + timedelta(days=days)) for days in (0, 1, 2, 3)]
    assert [version and version.number for version in measured] == [None, 1, 1, 2]
    assert current_at(versions, "published", DAY + timedelta(days=9)) is versions[2]
    assert [published_before(version, DAY + timedelta(days=1)) for version in versions] == [True, False, False, False]


@pytest.mark.parametrize(
    ("provenance", "ranges", "first_ones", "miniatures", "words"),
    [
        ("measured", False, 2, 0, "Ranges of ranks are not known: too few texts, or their files are not read yet."),
        ("published", False, 2, 0, "The source compares no pairs of models: neighbours may not differ."),
        ("measured", True, 5, 0, "None of the 5 causal models can be told from the best."),
        ("measured", True, 1, 1, "One of 5 causal models leads alone: a miniature, which is not listed here."),
        (
            *("measured", True, 3, 1),
            "3 of 5 causal models cannot be told from the best, 1 of them a miniature, which is not listed here.",
        ),
        (
            *("measured", True, 3, 2),
            "3 of 5 causal models cannot be told from the best, 2 of them miniatures, which are not listed here.",
        ),
        ("measured", True, 2, 0, "The first 2 of 5 causal models cannot be told apart."),
        ("measured", True, 1, 0, "One of 5 causal models leads alone."),
        ("measured", True, 0, 0, ""),
    ],
)
def test_the_leading_group_of_the_front_page_is_told_with_what_is_not_listed(
    provenance, ranges, first_ones, miniatures, words
):
    version = version_with(provenance=provenance)
    ends = {"rank_low": 1, "rank_high": 2} if ranges else {}
    group = group_of(row_of(version, **ends), row_of(version), first_ones=first_ones)
    leaders = Leaders(ranking_of(group, versions=[version]), group, miniatures)
    assert leaders.leading_words == words
    assert (leaders.version, leaders.rows) == (version, group.rows)


@pytest.mark.parametrize(
    ("scorer", "fingerprint", "provenance", "other_scorer", "other_fingerprint"),
    [
        ("judge", "1", "measured", "", False),
        ("judge", "2", "measured", "", True),
        ("lexicon", "2", "measured", "judge", True),
        ("lexicon", "2", "published", "judge", False),
    ],
)
def test_a_step_of_a_history_says_whether_another_scorer_made_its_numbers(
    scorer, fingerprint, provenance, other_scorer, other_fingerprint
):
    before = version_with(scorer="judge", scorer_fingerprint="1")
    version = version_with(scorer=scorer, scorer_fingerprint=fingerprint, provenance=provenance)
    step = HistoryStep(version, before, [], [])
    assert (step.other_scorer, step.other_fingerprint) == (other_scorer, other_fingerprint)
    first = HistoryStep(version, None, [], [])
    assert (first.other_scorer, first.other_fingerprint) == ("", False)
