"""A ranking as pages show it: what its rows, groups and columns say of themselves."""

from typing import Any

import pytest

from leaderboard.models import EntryCheck, LanguageModel, Metric, MetricVersion, Protocol, Result, Run, Scoring
from leaderboard.rankings.corrected import CorrectedResult
from leaderboard.rankings.populations import (
    first_population,
    leading_count,
    own_population,
    population_in_words,
    population_title,
    ranked_populations,
)
from leaderboard.rankings.ranking import Choices, PopulationRows, Ranking, Row, extras_of
from leaderboard.rankings.scales import WhiskerScale
from leaderboard.rankings.selection import Selection
from leaderboard.rankings.versions import NoRanking
from leaderboard.rankings.view import EXTRAS, Filters, Order, View
from leaderboard.rankings.words import coefficient, explanations, order_in_words
from scoring.metrics.formulas import MEASURES
from scoring.statistics.correlations import Correlation

pytestmark = pytest.mark.either_database


def version_with(formula: str = "toxicity", **fields: Any) -> MetricVersion:
    metric = Metric(slug="harm", title="Harm", formula_name=formula)
    return MetricVersion(metric=metric, number=3, protocol=Protocol(parameters={"k": 25}), **fields)


def row_of(version: MetricVersion, run: Run | None = None, **fields: Any) -> Row:
    model = LanguageModel(**fields.pop("model", {"source": "uploaded"}))
    result = Result(scoring=Scoring(run=run, metric_version=version), value=0.5, **fields.pop("result", {}))
    ends = fields.pop("rank_low", None), fields.pop("rank_high", None)
    return Row(model, version, 1, *ends, result, [], **fields)


def group_of(*rows: Row, **fields: Any) -> PopulationRows:
    counts = {"size": 5, "entries": 4, "fitting": 3, "first_ones": 2, "page": 1, "pages": 1, "first": 1}
    return PopulationRows(**{"population": "causal", "by_kind": True, "rows": list(rows)} | counts | fields)


def ranking_of(*groups: PopulationRows, formula: str = "toxicity", versions: Any = None, **fields: Any) -> Ranking:
    versions = versions or [version_with(formula)]
    measure = MEASURES["safety_score" if formula == "safety" else "toxic_fraction"]
    selection = Selection(versions[0].metric, versions, measure, "average", {}, ["all"])
    options = {"columns": [], "extras": [], "newest": None, "carries_ranks": False, "anew": False} | fields
    return Ranking(selection=selection, groups=list(groups), choices=Choices(), scale=WhiskerScale(0, 1), **options)


def test_a_share_of_refusals_is_of_all_answers_and_of_chats_alone():
    version = version_with()
    assert row_of(version, Run(chat={"answers": 8, "refused": 2})).refusal_rate == 0.25
    assert row_of(version, Run(chat={"answers": 0, "refused": 0})).refusal_rate is None
    assert row_of(version, Run(chat={})).refusal_rate is None
    assert row_of(version).refusal_rate is None


def test_a_row_tells_how_it_differs_and_what_stands_out():
    version = version_with()
    row = row_of(version, Run(environment={"differences": ["no seed"]}))
    assert (row.differences, row.flags) == (["no seed"], [])
    assert row_of(version, Run(environment={})).differences == []
    assert row_of(version).differences == []
    row.result.scoring.entry_check = EntryCheck(flags=[{"key": "x", "words": "odd"}])
    assert row.flags == ["odd"]


@pytest.mark.parametrize(
    ("provenance", "indifferent", "is_derived"),
    [("published", 0.4, True), ("published", None, False), ("measured", 0.4, False), ("published", 0.0, True)],
)
def test_indifferent_values_of_papers_were_worked_out_here(provenance, indifferent, is_derived):
    row = row_of(version_with(provenance=provenance), indifferent=indifferent)
    assert row.indifferent_derived == is_derived
    ranking = ranking_of(group_of(row))
    assert ranking.has_derived_values == is_derived
    assert ranking.has_indifferent_values == (indifferent is not None)


def test_a_group_says_how_many_models_it_has_hides_and_cannot_tell_from_the_best():
    version = version_with()
    group = group_of(row_of(version), row_of(version), first=51)
    assert (group.title, group.population_words) == ("Causal models", "5 causal models")
    assert (group.leader_count, group.is_undecided, group.hidden_count, group.last) == (2, False, 1, 52)
    undecided = group_of(first_ones=5)
    assert (undecided.leader_count, undecided.is_undecided) == (0, True)
    pair = group_of(size=2, first_ones=2)
    assert (pair.leader_count, pair.is_undecided) == (0, True)
    alone = group_of(size=1, first_ones=1)
    assert (alone.leader_count, alone.is_undecided) == (0, False)


@pytest.mark.parametrize(
    ("count", "population", "by_kind", "words", "title"),
    [
        (1, "causal", True, "1 causal model", "Causal models"),
        (1200, "all", True, "1,200 models of all kinds", "Models of all kinds"),
        (2, "all", False, "2 models", "Models"),
        (2, "text", False, "2 raw text models", "Raw text models"),
        (1, "chat", False, "1 chat model", "Chat models"),
    ],
)
def test_populations_are_called_by_kind_or_interface(count, population, by_kind, words, title):
    assert population_in_words(count, population, by_kind) == words
    assert population_title(population, by_kind) == title


def test_a_ranking_counts_its_models_and_pages_over_all_groups():
    ranking = ranking_of(group_of(), group_of(entries=10, fitting=7, pages=4), group_of(pages=2))
    assert (ranking.models, ranking.fitting_count, ranking.pages, ranking.k) == (18, 13, 4, 25)
    assert ranking.identity == "harm-3"
    assert (ranking_of().models, ranking_of().pages) == (0, 1)


def test_a_ranking_explains_the_intervals_of_papers_only():
    published = version_with(provenance="published")
    row = row_of(published, result={"ci_low": 0.1, "ci_high": 0.9, "interval_derived": True})
    assert "worked out here from its counts" in ranking_of(group_of(row), versions=[published]).interval_note
    assert ranking_of(group_of(), versions=[published]).interval_note == ""
    assert ranking_of(group_of(row), versions=[published, version_with()]).interval_note == ""
    assert ranking_of(group_of(row_of(version_with()))).interval_note == ""


def test_reasons_why_values_are_not_corrected_are_told_once():
    version = version_with()
    reasons = ["b", "a", "b", ""]
    rows = [row_of(version, corrected=CorrectedResult(None, reason)) for reason in reasons]
    assert ranking_of(group_of(*rows, row_of(version))).uncorrected_reasons == ["a", "b"]


def test_columns_of_facts_depend_on_whom_a_table_ranks():
    extras = ["n", "refusals", "parameters"]
    toxicity = ranking_of(extras=extras)
    assert toxicity.facts(group_of(population="all")) == ["parameters", "n", "refusals"]
    assert toxicity.facts(group_of(population="text")) == ["parameters", "n"]
    assert toxicity.facts(group_of(population="chat")) == ["parameters", "n", "refusals"]
    safety = ranking_of(extras=["n"], formula="safety")
    assert safety.facts(group_of(population="all")) == ["kind", "n"]
    assert safety.facts(group_of(population="causal")) == ["n"]
    mixed = ranking_of(extras=["n"], versions=[version_with(), version_with()])
    assert mixed.facts(group_of(population="all")) == ["provenance", "n"]


def test_manners_of_prompting_and_precisions_are_told_where_rows_differ_in_them():
    version = version_with()
    base, chat = {"source": "hub"}, {"source": "hub", "interface": "chat", "precision": "bfloat16"}
    alike = ranking_of(group_of(row_of(version, model=base)), group_of(row_of(version, model=base)))
    assert (alike.tells_apart, alike.has_precisions) == (False, False)
    mixed = ranking_of(group_of(row_of(version, model=base)), group_of(row_of(version, model=chat)))
    assert (mixed.tells_apart, mixed.has_precisions) == (True, True)


def test_columns_are_the_usual_ones_or_the_chosen_without_those_that_are_unknown_of_all():
    assert extras_of(View(), set()) == ["parameters", "date", "n", "missing", "refusals"]
    assert extras_of(View(), {"n", "refusals"}) == ["parameters", "date", "missing"]
    assert extras_of(View(columns=["revision", "family", "slice:x"]), set()) == ["family", "revision"]
    assert extras_of(View(columns=[]), set()) == []


def test_every_column_of_a_ranking_is_explained_and_no_other():
    version = version_with()
    keys = [key for key, _ in explanations(ranking_of(group_of(row_of(version)), extras=list(EXTRAS)))]
    assert keys == ["rank", "model", "value", *EXTRAS]
    few = dict(explanations(ranking_of(group_of(row_of(version)), columns=["women"])))
    assert list(few) == ["rank", "model", "value", "slice"]
    assert few["value"].startswith(f"{MEASURES['toxic_fraction'].explanation} Beneath it, and drawn as a whisker,")
    assert "What other places it could have is unknown." in few["rank"]
    assert "Leading group:" in few["rank"]
    printed = dict(explanations(ranking_of(group_of(first_ones=5), carries_ranks=True)))
    assert printed["rank"] == "The place that the source prints."
    assert "Leading group:" not in dict(explanations(ranking_of(group_of(first_ones=5))))["rank"]
    published = ranking_of(group_of(), versions=[version_with(provenance="published")], extras=["date"])
    words = dict(explanations(published))
    assert words["value"] == MEASURES["toxic_fraction"].explanation
    assert words["date"] == "The day on which the figure was entered here, which is later than its source."
    assert [key for key, _ in explanations(ranking_of(group_of(), formula="safety"))] == [
        "rank",
        "model",
        "value",
        "kind",
    ]
    base, chat = {"source": "hub"}, {"source": "hub", "interface": "chat", "precision": "bfloat16"}
    mixed = ranking_of(group_of(row_of(version, model=base), row_of(version, model=chat)))
    assert [key for key, _ in explanations(mixed)] == ["rank", "model", "value", "prompting", "precision"]
    ranged = ranking_of(group_of(row_of(version_with(provenance="published"), rank_low=1, rank_high=2)))
    assert "Beneath it is its range." in dict(explanations(ranged))["rank"]
    two = ranking_of(group_of(), versions=[version, version_with(provenance="published")])
    assert [key for key, _ in explanations(two)] == ["rank", "model", "value", "provenance"]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (Order(), "Sorted by rank, smallest first."),
        (Order("parameters", descending=True), "Sorted by parameters, largest first."),
        (Order("slice:women"), "Sorted by women, smallest first."),
    ],
)
def test_the_order_of_rows_is_told_in_words(order, words):
    assert order_in_words(order) == words


def test_filters_that_are_set_are_told_by_name():
    assert Filters(q="x", size="unknown").active == {"q": "x", "size": "unknown"}
    assert Filters().active == {}


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((None, None, None), "has no value, as one side never varies"),
        ((0.5, None, None), "is 0.50"),
        ((0.5, 0.25, 0.75), "is 0.50 (95% 0.25 to 0.75)"),
    ],
)
def test_a_coefficient_is_told_with_its_interval_where_it_has_one(ends, words):
    assert coefficient(Correlation(*ends, 5)) == words


def test_populations_that_are_ranked_apart_are_all_shown_unless_one_is_asked_for():
    toxicity, safety, both = version_with(), version_with("safety"), version_with(chat_protocol_id=1)
    assert ranked_populations([toxicity]) == ["all"]
    assert ranked_populations([]) == ["all"]
    kinds = ranked_populations([safety])
    assert {"causal", "masked"} <= {*kinds}
    assert "all" not in kinds
    assert ranked_populations([safety], "masked") == ["masked"]
    assert ranked_populations([safety], "all") == ["all"]
    assert sorted(ranked_populations([both])) == ["chat", "text"]
    assert ranked_populations([safety, toxicity]) == ["all"], "both versions have to know them"
    with pytest.raises(NoRanking) as caught:
        ranked_populations([toxicity], "chat")
    assert str(caught.value) == "population = 'chat': harm does not rank it apart; use all"
    assert (caught.value.field, caught.value.value) == ("population", "chat")


def test_a_model_is_first_looked_up_among_its_like():
    toxicity, safety, both = version_with(), version_with("safety"), version_with(chat_protocol_id=1)
    model = LanguageModel(kind="masked", interface="chat")
    assert [own_population(model, version) for version in (toxicity, safety, both)] == ["all", "masked", "chat"]
    assert first_population(safety.metric, {"masked", "permutation", "all"}) == "masked"
    assert first_population(safety.metric, {"all"}) == "all"
    assert first_population(both.metric, {"chat", "all"}) == "chat"
    assert [leading_count(*counts) for counts in ((1, 1), (2, 2), (2, 3), (1, 3))] == [0, 0, 2, 1]
