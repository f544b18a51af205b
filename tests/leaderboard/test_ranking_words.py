"""What the ranking of measured models says of itself in words."""

import re

import pytest

from leaderboard.models import Standing
from tests.leaderboard.test_rankings import page, ranks, said

pytestmark = pytest.mark.django_db


def test_direction_and_neutral_value_are_said_and_a_baseline_stands_in_the_table(client, board):
    score = said(page(client, "/rankings/?metric=safety-starter&measure=safety_score&provenance=measured"))
    assert (
        "Higher is better. There is no fixed neutral value: a model without preference would have a value of its own"
        in score
    )
    assert "No preference" not in score
    html = page(client, "/rankings/?metric=safety-starter&measure=likelihood_auc&kind=causal&provenance=measured")
    assert "0.5 is neutral: what a model without preference, or chance, would have." in said(html)
    row = re.search(r'<tr class="baseline">.*?</tr>', html, re.DOTALL)[0]
    assert "0.500" in row
    assert "No preference" in row
    assert len(ranks(html)) == 2
    assert html.count('<span class="tag" title="Comes with this board') == 2


def test_the_leading_group_is_counted_and_marked_by_word_and_shape(client, board):
    causal = Standing.objects.filter(
        measure=board.measure, slice="average", population="causal", metric_version__metric=board
    )
    causal.filter(metric_version__provenance="measured", rank=2).update(rank_low=2)
    html = page(client, "/rankings/?metric=safety-starter&provenance=measured&kind=causal")
    assert html.count("◆ leads") == 1
    assert "leading group of 1" in said(html)


@pytest.mark.slow
def test_the_help_speaks_of_a_leading_group_where_there_is_one(client, board):
    for metric, leads in (("safety-starter", True), ("safety-toxigen", False)):
        html = page(client, f"/rankings/?metric={metric}")
        assert ("◆ leads" in html) is ("Leading group: " in said(html)) is leads


def test_kinds_of_models_can_be_chosen_where_nothing_is_ranked(client, published):
    html = page(client, "/rankings/?metric=safety-toxigen&as_of=2020-01-01")
    field = re.search(r'<select name="kind".*?</select>', html, re.S)
    assert re.findall(r'<option value="(\w*)"', field[0]) == ["", "all", "causal", "masked", "permutation"]
