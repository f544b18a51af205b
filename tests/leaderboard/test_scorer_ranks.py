"""Ranks under several scorers of the same continuations: ranges, robust pairs, and who is left out."""

import csv
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import LanguageModel, Metric, MetricVersion, Run
from leaderboard.queries.scorer_ranks import describe_sensitivity, list_groups, read_boards
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.services.publish import publish_standings
from leaderboard.views.scorer_ranks import parse
from tests.leaderboard.approved_board import compare_pages
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.stored import metric_of, run_of, runs_on, score_all, score_one, version_of
from tests.leaderboard.test_history import page, said, table

pytestmark = pytest.mark.django_db

ADDRESS = "/agreement/scorers/"


@pytest.fixture
def three_scorers(db):
    """Four models under three scorers: two that agree but for the scale, and one that sees everything the other way."""
    metrics = [
        metric_of("careful", "profanity"),
        metric_of("blunt", "detoxify-original"),
        metric_of("odd", "perspective"),
    ]
    runs = runs_on(metrics[0])
    for metric, name, of in zip(
        metrics,
        ("profanity", "toxicity", "TOXICITY"),
        (lambda x: x, lambda x: x / 2, lambda x: np.float32(0.9) - x),
        strict=True,
    ):
        score_all(version_of(metric, metric.slug), runs, {name: of})
    return metrics


def board_of(slugs: list[str], measure: str = "mean_toxicity"):
    """The board of the scorers of these metrics over all prompts."""
    (group,) = list_groups(metrics_with_versions())
    versions = [version for version in group.versions if version.metric.slug in slugs]
    return read_boards(group, versions, "all", "all")[measure]


@pytest.mark.slow
def test_scorers_of_one_protocol_make_a_group_and_each_names_its_harm_as_it_does(three_scorers):
    (group,) = list_groups(metrics_with_versions())
    assert [version.metric.slug for version in group.versions] == ["careful", "blunt", "odd"]
    assert {measure.key for measure in group.measures} >= {"expected_max_toxicity", "toxic_fraction", "mean_toxicity"}
    board = board_of(["careful", "blunt", "odd"])
    assert board.slices == ["profanity:all", "toxicity:all", "TOXICITY:all"]
    assert group.parts("mean_toxicity") == ["all", "toxic", "nontoxic"]


@pytest.mark.slow
def test_scorers_that_agree_keep_every_pair_and_one_that_turns_all_over_keeps_none(three_scorers):
    alike = board_of(["careful", "blunt"])
    assert alike.sensitivity.ranks[0].tolist() == alike.sensitivity.ranks[1].tolist()
    assert (alike.sensitivity.robust, alike.sensitivity.pairs) == (6, 6)
    assert alike.sensitivity.concordance == pytest.approx(1)
    assert "No model's rank depends on the scorer." in describe_sensitivity(alike, "all")
    opposed = board_of(["careful", "blunt", "odd"])
    assert opposed.sensitivity.robust == 0
    # Rank sums of orders 1234, 1234 and 4321 are 6, 7, 8, 9: S = 5, and W = 12 * 5 / (9 * 60).
    assert opposed.sensitivity.concordance == pytest.approx(1 / 9)
    assert [(low, high) for _, _, low, high, _ in opposed.rows] == [(1, 4), (2, 3), (2, 3), (1, 4)]
    assert "0 of 6 pairs of models (0%) keep their order" in " ".join(describe_sensitivity(opposed, "all"))


@pytest.mark.parametrize(("count", "words"), [(1, "1 model has numbers"), (2, "2 models have numbers")])
def test_a_verb_fits_how_many_models_all_scorers_judged(count, words):
    formula = SimpleNamespace(by_kind=False)
    versions = [SimpleNamespace(metric=SimpleNamespace(formula=formula))] * 2
    board = SimpleNamespace(versions=versions, entries=[None] * count, sensitivity=None, widest=None)
    assert describe_sensitivity(board, "all") == [f"{words} under all 2 scorers."]


@pytest.mark.slow
def test_a_model_that_one_scorer_lacks_or_judged_on_another_run_is_left_out_and_named(three_scorers):
    careful, blunt, _ = three_scorers
    elm = run_of("Elm", careful)
    score_one(careful.versions.get(), elm, 4, {"profanity": lambda x: x})
    fir = run_of("Fir", careful)
    Run.objects.filter(pk=fir.pk).update(epoch=2)
    other_fir = run_of("Fir", careful)
    score_one(careful.versions.get(), fir, 5, {"profanity": lambda x: x})
    score_one(blunt.versions.get(), other_fir, 5, {"toxicity": lambda x: x})
    for metric in (careful, blunt):
        publish_standings(metric.versions.get())
    board = board_of(["careful", "blunt"])
    assert len(board.entries) == 4
    assert board.left_out == ["Elm", "Fir"]


def test_a_hidden_model_is_on_no_board(three_scorers):
    LanguageModel.objects.filter(slug="alder").update(access="withdrawn", hidden_note="at the request of its authors")
    assert "alder" not in {entry.slug for entry in board_of(["careful", "blunt"]).entries}


@pytest.mark.slow
def test_the_page_shows_ranks_ranges_panels_and_files(client, three_scorers):
    html = page(client, f"{ADDRESS}?metric=careful&measure=mean_toxicity")
    rows = table(html, "Ranks under each scorer")
    assert len(rows) == 4
    assert {row[1] for row in rows} == {"1 to 4", "2 to 3"}
    measures = {row[0]: row for row in table(html, "How far the scorers agree on each measure")}
    assert measures["Mean toxicity"][3] == "0.11"
    chart = json.loads(client.get(f"{ADDRESS}?metric=careful&chart=scorer-ranks&format=json").content)
    assert {f"yaxis{suffix}" for suffix in ("", "2", "3")} <= set(chart["layout"])
    rows = list(
        csv.DictReader(io.StringIO(client.get("/agreement/scorers.csv?measure=mean_toxicity").content.decode()))
    )
    assert sorted((row["lowest"], row["highest"], row["median"]) for row in rows)[0] == ("1", "4", "1")
    assert float(rows[0]["value:careful"]) == pytest.approx(2 * float(rows[0]["value:blunt"]))
    content = client.get("/agreement/scorers.json?metric=odd&scorer=careful&scorer=blunt").json()
    (board,) = [board for board in content["boards"] if board["measure"] == "mean_toxicity"]
    assert (board["kendall_w"], [scorer["metric"] for scorer in board["scorers"]]) == (1.0, ["careful", "blunt"])


@pytest.mark.slow
@pytest.mark.either_database
def test_the_pages_of_ranks_under_each_scorer_say_what_was_approved(client, three_scorers):
    views = ("", "?metric=odd&measure=toxic_fraction", "?scorer=careful&scorer=blunt")
    compare_pages(client, *(ADDRESS + view for view in views), "/agreement/scorers.csv", "/agreement/scorers.json")


@pytest.mark.slow
def test_the_comparison_begins_with_the_measure_that_the_first_metric_begins_with(rf, three_scorers):
    for measure in ("toxic_fraction", "mean_toxicity"):
        Metric.objects.filter(slug="careful").update(measure=measure)
        assert parse(rf.get(ADDRESS), list_groups(metrics_with_versions())).measure.key == measure


@pytest.mark.slow
def test_a_reader_ticks_scorers_and_is_told_when_one_is_left(client, three_scorers):
    html = page(client, f"{ADDRESS}?scorer=careful&scorer=blunt")
    assert "under all 2 scorers" in said(html)
    assert "tick another" in page(client, f"{ADDRESS}?scorer=careful")
    assert client.get(f"{ADDRESS}?scorer=nobody").status_code == 404
    assert client.get(f"{ADDRESS}?metric=nothing").status_code == 404
    assert client.get("/agreement/scorers.csv?scorer=careful").status_code == 404
    moved = client.get(f"{ADDRESS}?metric=careful:measured&of=another:measured&part=toxic")
    assert moved.headers["Location"] == f"{ADDRESS}?metric=careful%3Ameasured"


def test_published_figures_make_no_board_where_scorers_judged_other_parts_of_the_texts(client, db):
    seed_figures()  # Perspective on toxic and non-toxic prompts, Detoxify on all prompts, of the same set
    assert not list_groups(metrics_with_versions())
    for address in (ADDRESS, f"{ADDRESS}?metric=rtp-perspective"):
        assert "No two scorers have judged the same texts here yet" in page(client, address)


@pytest.mark.slow
def test_published_figures_of_several_scorers_stand_apart_from_measured_ones(three_scorers):
    careful, blunt, _ = three_scorers
    for metric in (careful, blunt):
        figures = version_of(metric, "paper")
        MetricVersion.objects.filter(pk=figures.pk).update(provenance="published", source="A paper")
        figures.refresh_from_db()
        score_all(figures, list(Run.objects.order_by("pk")), {"toxicity": lambda x: x})
    groups = list_groups(metrics_with_versions())
    assert [(group.provenance, len(group.versions)) for group in groups] == [("measured", 3), ("published", 2)]


def test_a_board_without_two_scorers_says_what_to_do(client, db):
    assert "evaluate models on two metrics of one protocol" in page(client, ADDRESS)
    assert client.get("/agreement/scorers.json").status_code == 404


@pytest.mark.slow
def test_other_pages_lead_to_it(client, three_scorers):
    for address in ("/agreement/", "/scorers/", "/compare-scorers/", "/metrics/careful/", "/rankings/?metric=careful"):
        assert f'href="{ADDRESS}' in page(client, address), address


@pytest.mark.slow
def test_queries_do_not_grow_with_models_or_scorers(client, three_scorers):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, ADDRESS)
        return len(queries)

    before = count()
    fourth = metric_of("fourth", "detoxify-unbiased")
    runs = [*Run.objects.order_by("pk"), run_of("Elm", fourth)]
    score_all(version_of(fourth, "fourth"), runs, {"toxicity": np.sqrt})
    assert count() == before
