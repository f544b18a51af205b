"""The front page: an answer before anything is measured here, and the ways in."""

import math
import re
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import LanguageModel, Metric
from leaderboard.queries.front import LEADERS, Leaders, list_leaders, read_scorers_today
from leaderboard.queries.likelihoods import LabelLikelihoods, LabelSide
from leaderboard.rankings.versions import metrics_with_versions
from scoring.statistics.distributions import QUANTILES
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.test_history import page

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]


@pytest.fixture
def figures_alone(db: None) -> None:
    """A board that has what papers printed, and nothing of its own."""
    seed_figures()


def named_models(html: str) -> list[str]:
    """The models of the lists, from the top."""
    lists = re.findall(r'<ol class="leading-models">(.*?)</ol>', html, flags=re.DOTALL)
    return [name for content in lists for name in re.findall(r'title="([^"]+)"', content)]


def test_a_board_that_measured_nothing_leads_with_known_models_of_several_families(client, figures_alone):
    html = page(client, "/")
    assert "Which language models are less harmful, to whom, and are today" in html
    names = named_models(html)
    assert len(names) > LEADERS
    bundled = set(LanguageModel.objects.filter(source="bundled").values_list("name", flat=True))
    assert not bundled & set(names)
    titles = [board.title for board in list_leaders(metrics_with_versions())]
    assert {"Safety", "Toxicity", "Regard"} <= set(titles)
    assert len(titles) == len(set(titles))


@pytest.mark.slow
def test_miniatures_never_lead(client, board, figures_alone):
    bundled = set(LanguageModel.objects.filter(source="bundled").values_list("name", flat=True))
    assert bundled
    for leaders in list_leaders(metrics_with_versions()):
        assert not {row.model.name for row in leaders.rows} & bundled
        ranks = [row.rank for row in leaders.rows]
        assert ranks == sorted(ranks)


@pytest.mark.slow
def test_miniatures_are_no_default_where_known_models_are_ranked(client, board, figures_alone):
    html = page(client, "/rankings/")
    metric = Metric.objects.get(title=re.search(r"<h1>(.*?)</h1>", html)[1])
    assert any(version.scorings.exclude(model__source="bundled").exists() for version in metric.versions.all())


def test_where_the_source_compares_no_models_the_page_says_so(client, figures_alone):
    safety = list_leaders(metrics_with_versions())[0]
    assert safety.leading_words == "The source compares no pairs of models: neighbours may not differ."
    assert safety.leading_words in page(client, "/")


def test_an_unchecked_board_says_so_and_what_its_sources_rescored(client, figures_alone):
    today = read_scorers_today()
    assert today.checked == []
    assert 0 < today.last_rescoring.moved <= today.last_rescoring.models == 37
    assert today.last_rescoring.at is None
    html = page(client, "/")
    assert "none has been checked yet" in html
    assert f"{today.last_rescoring.moved} of 37 ranks" in re.sub(r"\s+", " ", html)


def test_an_empty_board_points_to_the_seed(client, db):
    assert "manage.py seed" in page(client, "/")


def test_addresses_of_rankings_that_stood_here_lead_to_where_they_stand(client, figures_alone):
    answer = client.get("/?metric=regard&slice=women&measure=regard_score")
    assert answer.status_code == 301
    assert answer["Location"] == "/rankings/?metric=regard&slice=women&measure=regard_score"


def test_the_number_of_queries_is_the_same_for_many_models(client, figures_alone):
    def count_queries() -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, "/")
        return len(queries)

    count = count_queries()
    hidden = LanguageModel.objects.filter(slug__startswith="hosseini").values("pk")[:10]
    LanguageModel.objects.filter(pk__in=list(hidden.values_list("pk", flat=True))).update(hidden_note="a test")
    assert count_queries() == count <= 40


@pytest.mark.parametrize(
    ("leaders", "miniatures", "is_undecided", "words"),
    [
        (0, 2, True, "None of the 24 models can be told from the best."),
        (3, 0, False, "The first 3 of 24 models cannot be told apart."),
        (1, 0, False, "One of 24 models leads alone."),
        (0, 0, False, ""),
        (1, 1, False, "One of 24 models leads alone: a miniature, which is not listed here."),
        (
            3,
            1,
            False,
            "3 of 24 models cannot be told from the best, 1 of them a miniature, which is not listed here.",
        ),
        (
            3,
            3,
            False,
            "3 of 24 models cannot be told from the best, 3 of them miniatures, which are not listed here.",
        ),
    ],
)
def test_the_leading_group_is_said_as_far_as_intervals_tell_it(leaders, miniatures, is_undecided, words):
    group = SimpleNamespace(
        rows=[SimpleNamespace(rank_low=1)],
        is_undecided=is_undecided,
        leader_count=leaders,
        population_words="24 models",
    )
    assert Leaders(SimpleNamespace(), group, miniatures).leading_words == words


def test_miniatures_that_lead_are_counted_apart(client, measured_board):
    version = measured_board.current_version()
    causal = version.standings.filter(measure="likelihood_auc", slice="average", population="causal")
    causal.filter(rank=2).update(rank_low=2)
    second = causal.get(rank=2)
    LanguageModel.objects.filter(pk=second.model_id).update(source="local")
    (board,) = list_leaders(metrics_with_versions())
    assert [row.model.pk for row in board.rows] == [second.model_id]
    assert board.leading_miniatures == 1
    assert "One of 2 causal models leads alone: a miniature" in page(client, "/")


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (True, "Ranges of ranks are not known: too few texts, or their files are not read yet."),
        (False, "The source compares no pairs of models: neighbours may not differ."),
    ],
)
def test_ranks_without_ranges_have_a_source_only_where_a_paper_printed_them(measured, words):
    group = SimpleNamespace(rows=[SimpleNamespace(rank_low=None)])
    ranking = SimpleNamespace(versions=[SimpleNamespace(measured=measured)])
    assert Leaders(ranking, group, 0).leading_words == words


@pytest.mark.parametrize(
    ("harmful", "words"),
    [
        (3.0, "Harmful and benign texts are equally likely to the model"),
        (3.5, "A harmful text is less likely to the model than a benign one"),
        (2.5, "A harmful text is more likely to the model than a benign one"),
    ],
)
def test_what_two_medians_come_to_is_said_in_a_sentence(harmful, words):
    quantiles = {"harmful": [harmful] * len(QUANTILES), "benign": [3.0] * len(QUANTILES)}
    sides = [LabelSide(label, 10, 0, values, []) for label, values in quantiles.items()]
    sentence = LabelLikelihoods([], *sides).sentence
    assert sentence.startswith(words)
    assert f"is {harmful:.3f} for harmful texts and 3.000 for benign ones" in sentence
    assert harmful == 3.0 or f"{math.exp(harmful - 3):.2f} times that of a benign one" in sentence
