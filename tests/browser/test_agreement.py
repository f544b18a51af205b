"""The pages that compare models and that set metrics against each other, in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import CHROMIUM
from tests.browser.looking import drawn, explore, unfit
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

COMPARE = f"/compare/?m={CAUSAL}&m={OTHER_CAUSAL}"
PUBLISHED = "/compare/?m=hosseini-2023-gpt-2&m=hosseini-2023-albert-base-v2&m=hosseini-2023-roberta-base"
AGREEMENT, PAPER = "/agreement/?numbers=published", "/agreement/published/"
PAGES = {"compare": COMPARE, "published": PUBLISHED, "nobody": "/compare/", "agreement": AGREEMENT, "paper": PAPER}
WIDTHS = (360, 1440)


@pytest.mark.parametrize("address", PAGES.values(), ids=PAGES)
def test_each_page_with_its_charts_drawn_is_accessible_and_fits_its_window(visit, address):
    assert unfit(visit(address)) == []


def test_a_visitor_finds_two_models_and_reads_whether_they_differ(visit):
    page = visit("/rankings/").page
    page.get_by_role("navigation", name="Site").get_by_role("link", name="Compare", exact=True).click()
    page.locator(".live select[name=metric]").select_option("safety-starter")
    page.get_by_role("link", name=f"Add {CAUSAL}").click()
    page.get_by_label("Add a model").fill("l6-h128")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name=f"Add {OTHER_CAUSAL}").click()
    expect(page.locator(".verdicts li")).to_have_count(1)
    expect(page.locator(".verdicts")).to_contain_text(CAUSAL)
    page.locator("select[name=slice]").select_option("women")
    expect(page.get_by_role("heading", level=2, name="Likelihood AUC, Women")).to_be_visible()
    page.get_by_role("link", name=f"Take out {CAUSAL}").click()
    expect(page.get_by_text("Choose one more model")).to_be_visible()


def test_without_script_the_comparison_is_all_there(visit):
    page = visit(COMPARE, java_script_enabled=False).page
    expect(page.locator(".verdicts li")).to_have_count(1)
    expect(page.get_by_role("region", name="Table of differences").locator("tbody tr")).to_have_count(1)
    drawn(page)
    expect(page.get_by_role("button", name="Explore")).to_be_hidden()
    page.locator("select[name=metric]").select_option("safety-toxigen")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("None of these models has a value here")).to_be_visible()


def test_a_cell_of_the_matrix_leads_to_its_models(visit):
    page = drawn(visit(AGREEMENT).page)
    page.locator("td.heat a").first.click()
    page.wait_for_url("**#pair")
    expect(page.get_by_role("region", name="Table of the pair").locator("tbody tr")).to_have_count(17)


def test_models_are_named_when_the_mouse_is_on_their_point(visit):
    plot = explore(visit(AGREEMENT).page, "agreement")
    point = plot.locator(".scatterlayer .points path").first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    expect(plot.locator(".hoverlayer")).to_contain_text("0.")


def test_the_scatter_is_saved_as_a_file(visit):
    page = drawn(visit(AGREEMENT).page)
    with page.expect_download() as caught:
        page.get_by_role("link", name="SVG", exact=True).first.click()
    assert caught.value.suggested_filename == "agreement.svg"
    assert b"<svg" in caught.value.path().read_bytes()


def test_another_measure_is_added_without_a_script(visit):
    page = visit(AGREEMENT, java_script_enabled=False).page
    page.get_by_text("Choose measures").click()
    page.locator("#columns").get_by_role("link", name="Safety on ToxiGen", exact=True).click()
    page.get_by_role("form", name="Add measures of").get_by_role("listbox").select_option(
        "safety-toxigen/safety_score/women"
    )
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("region", name="Table of correlations")).to_contain_text("Safety score, Women")


def test_the_comparison_of_scorers_is_reached_from_agreement(visit):
    page = visit("/rankings/").page
    page.get_by_role("navigation", name="Site").get_by_role("link", name="Agreement").click()
    page.get_by_role("link", name="Compare scorers").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare scorers")
