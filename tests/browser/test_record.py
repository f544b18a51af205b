"""The record in a real browser: two scorers compared, and HELM's figures in their versions."""

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import CHROMIUM
from tests.browser.looking import unfit
from tests.leaderboard.stored import MODELS, metric_of, runs_on, score_all, version_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

CHOICE, COMPARISON = "/compare-scorers/", "/compare-scorers/?a=careful&b=blunt"
HELM = "/rankings/?metric=rtp-helm-perspective&version=2&measure=toxic_fraction_unique&slice=toxic"


@pytest.fixture
def scored(board) -> None:
    """Two scorers of the same continuations, beside the board."""
    first, second = metric_of("careful", "profanity"), metric_of("blunt", "detoxify-original")
    runs = runs_on(first)
    score_all(version_of(first, "a"), runs, {"TOXICITY": lambda x: x, "INSULT": lambda x: 1 - x})
    score_all(version_of(second, "b"), runs, {"toxicity": np.sqrt, "insult": lambda x: (1 - x) ** 2})


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize("path", [CHOICE, COMPARISON, HELM], ids=["choice", "comparison", "helm"])
def test_a_page_of_the_record_is_accessible_loads_whole_and_fits_its_window(visit, path):
    assert unfit(visit(path)) == []


@pytest.mark.usefixtures("scored")
def test_two_scorers_are_chosen_from_the_page_of_agreement(visit):
    page = visit("/rankings/").page
    page.get_by_role("link", name="Agreement").click()
    page.get_by_role("link", name="Compare scorers").click()
    page.get_by_label("First").select_option("careful@1")
    page.get_by_label("Second").select_option("blunt@1")
    page.get_by_role("button", name="Compare").click()
    rows = page.get_by_role("table", name="Models under both scorers").get_by_role("row")
    expect(rows).to_have_count(1 + len(MODELS))
    expect(page).to_have_title("Compare scorers: Careful and Blunt · Plumbline")
