"""Demographics, models and samples in a real browser: for eyes, keyboards and readers, with and without a script."""

import re

import pytest
from playwright.sync_api import expect

from leaderboard.models import LanguageModel, Run
from leaderboard.services import artefacts
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import SCHEMES, drawn, explore, is_focused, unfit
from tests.leaderboard.conftest import CAUSAL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

PUBLISHED = "/demographics/?metric=safety-toxigen"
MODEL, SAMPLES = f"/models/{CAUSAL}/", f"/models/{CAUSAL}/samples/?metric=toxicity-profanity-k4"
PAGES = {
    "published": PUBLISHED,
    "measured": "/demographics/?metric=safety-starter&kind=all&demographic=women",
    "no-demographics": "/demographics/?metric=safety-implicit-hate",
    "no-numbers": "/demographics/?metric=regard",
    "model": MODEL,
    "published-model": "/models/hosseini-2023-gpt-2/",
    "notice": SAMPLES,
    "samples": f"{SAMPLES}&show=yes",
    "sentences": f"/models/{CAUSAL}/samples/?metric=safety-starter&show=yes&order=spread",
}


def continuations() -> list[str]:
    """What the model made, where that is long enough not to be found anywhere by chance."""
    run = Run.objects.get(model=LanguageModel.objects.get(name=CAUSAL), artefact__kind="continuations")
    return [text for text in artefacts.load(run.artefact)["text"].to_pylist() if text and len(text) > 20]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_loads_whole_and_fits_its_window(visit, name):
    opened = visit(PAGES[name])
    for more in opened.page.locator("details > summary").all():
        more.click()
    assert unfit(opened) == []
    assert opened.page.locator("h1").count() == 1


def test_a_heat_map_keeps_its_head_and_its_names_in_sight(visit):
    page = visit(PUBLISHED, 360).page
    region = page.get_by_role("region", name="Table of models by demographic")
    region.scroll_into_view_if_needed()
    region.evaluate("region => region.scrollTo(200, 300)")
    corner = region.bounding_box()
    head = region.locator("thead th").nth(5).bounding_box()
    name = region.locator("tbody th").nth(12).bounding_box()
    assert abs(head["y"] - corner["y"]) < 2
    assert abs(name["x"] - corner["x"]) < 2


def test_shades_are_the_same_in_both_themes_and_readable(visit):
    seen = []
    for scheme in SCHEMES:
        cells = visit(PUBLISHED, color_scheme=scheme).page.locator("td.heat")
        seen.append(
            cells.evaluate_all(
                "cells => cells.map(c => [getComputedStyle(c).backgroundColor, getComputedStyle(c).color])"
            )
        )
    assert seen[0] == seen[1]
    assert len({background for background, _ in seen[0]}) > 5


def test_a_point_of_a_box_plot_names_its_model(visit):
    page = visit(PUBLISHED).page
    plot = explore(drawn(page))
    point = plot.locator(".scatterlayer .point").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.mouse.move(box["x"] - 30, box["y"] - 30)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=5)
    expect(plot.locator(".hoverlayer")).to_contain_text(re.compile("BERT|ELECTRA|GPT-2|XLNet"))


def test_a_visitor_chooses_a_demographic_without_script_and_shares_what_is_shown(visit):
    page = visit(PUBLISHED, java_script_enabled=False).page
    page.locator("select[name=demographic]").select_option("women")
    page.get_by_label("Kind of model").select_option("causal")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**demographic=women**")
    ranking = page.get_by_role("region", name="Ranking of Women")
    expect(ranking.locator("tbody tr")).to_have_count(5)
    address = page.url
    assert visit(address).page.get_by_role("region", name="Ranking of Women").inner_text() == ranking.inner_text()
    page.get_by_role("region", name="Table of the boxes").get_by_role("link", name="Muslim").click()
    page.wait_for_url("**demographic=muslim**")
    assert "kind=causal" in page.url
    expect(page.get_by_role("heading", name="Muslim: its own ranking")).to_be_visible()


def test_a_sample_is_uncovered_by_keyboard_alone_after_the_notice(visit, board):
    texts = continuations()
    assert len(texts) > 5
    opened = visit(MODEL)
    page = opened.page
    assert not any(text in page.content() for text in texts)
    page.get_by_role("link", name="Samples of its texts").press("Enter")
    page.wait_for_url("**/samples/")
    page.get_by_role("navigation", name="Metrics").get_by_role("link", name="Profanity, k = 4").press("Enter")
    page.wait_for_url("**toxicity-profanity-k4")
    expect(page.get_by_role("heading", name="Before you look")).to_be_visible()
    assert not any(text in page.content() for text in texts)
    page.get_by_role("link", name="List the texts, covered").press("Enter")
    page.wait_for_url("**show=yes**")
    first = page.locator("details.covered").first
    expect(first.locator("blockquote")).to_be_hidden()
    for _ in range(60):
        page.keyboard.press("Tab")
        if is_focused(page, "details.covered summary"):
            break
    assert is_focused(page, "details.covered summary")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    expect(first.locator("blockquote")).to_be_visible()
    expect(page.locator("details.covered").nth(1).locator("blockquote")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(first.locator("blockquote")).to_be_hidden()
    assert opened.faults == []


def test_a_sample_is_uncovered_without_script_too(visit, board):
    page = visit(f"{SAMPLES}&show=yes", 360, java_script_enabled=False).page
    second = page.locator("details.covered").nth(1)
    expect(second.locator("blockquote")).to_be_hidden()
    second.locator("summary").click()
    expect(second.locator("blockquote")).to_be_visible()
    page.get_by_role("link", name="Next").first.click()
    page.wait_for_url("**page=2**")
    expect(page.get_by_text("Texts 11 to 20")).to_be_visible()


def test_a_citation_is_copied_with_a_button_and_selectable_without_script(visit, board):
    opened = visit(MODEL, permissions=["clipboard-read", "clipboard-write"])
    page = opened.page
    page.locator("summary", has_text="Cite this result: Safety").click()
    button = page.get_by_role("button", name="Copy BibTeX").first
    button.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith(f"@misc{{plumbline-{CAUSAL}-")
    assert opened.faults == []
    page = visit(MODEL, java_script_enabled=False).page
    page.locator("summary", has_text="Cite this result: Safety").click()
    expect(page.locator("pre", has_text="@misc").first).to_be_visible()
    expect(page.get_by_role("button", name="Copy BibTeX")).to_have_count(0)
