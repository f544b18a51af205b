"""The history page in a real browser: a chart drawn when it is needed, for eyes, keyboards and readers alike."""

from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from tests.browser.conftest import CHROMIUM
from tests.browser.looking import drawn, explore, unfit

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

HELM = "/history/?metric=rtp-helm-perspective&measure=toxic_fraction_unique&slice=toxic"
CURIE, CURIE_SLUG = "text-curie-001", "helm-openai-text-curie-001"
NO_HISTORY = "/history/?metric=safety-starter"


def plotly(requests: list[str]) -> list[str]:
    return [address for address in requests if "/plotly/" in address]


def names(page: Page, only: str = "") -> list[str]:
    """What stands at the ends of the chart's lines, left and then right."""
    texts = page.locator(f"figure.chart svg:visible g{only}[data-key] text")
    found = texts.evaluate_all("texts => texts.map(text => text.lastChild.textContent)")  # without its title
    return [" ".join(text.split()) for text in found]


def test_the_page_with_its_chart_drawn_is_accessible_and_fits_its_window(visit):
    assert unfit(visit(HELM)) == []


def test_a_metric_without_a_history_has_an_accessible_page_too(visit):
    opened = visit(NO_HISTORY)
    assert unfit(opened) == []
    assert plotly(opened.requests) == []


def test_names_and_ranks_of_all_37_models_stand_at_both_ends(visit):
    found = names(drawn(visit(HELM).page))
    assert len(found) == 2 * 37
    assert f"{CURIE} 35" in found[:37]
    assert f"23 {CURIE}" in found[37:]


@pytest.mark.parametrize("width", [390, 1440])
def test_names_neither_overlap_nor_leave_the_window_at_either_end(visit, width):
    texts = drawn(visit(HELM, width).page).locator("figure.chart svg:visible g[data-key] text")
    boxes = texts.evaluate_all("texts => texts.map(text => text.getBoundingClientRect().toJSON())")
    assert len(boxes) == 2 * 37
    for side in (boxes[:37], boxes[37:]):
        side.sort(key=lambda box: box["top"])
        assert all(after["top"] >= before["bottom"] - 2 for before, after in pairwise(side))
        assert all(0 <= box["left"] < box["right"] <= width for box in side)
        assert min(box["height"] for box in side) >= 11


def test_the_script_of_plotly_is_fetched_when_its_reader_means_to_explore_compressed_for_ever(visit):
    opened = visit(HELM)
    drawn(opened.page).mouse.wheel(0, 3000)
    opened.page.wait_for_timeout(300)
    assert plotly(opened.requests) == []
    with opened.page.expect_response(lambda response: "/plotly/" in response.url) as caught:
        explore(opened.page)
    headers = caught.value.all_headers()
    assert headers["content-encoding"] == "gzip"
    assert "immutable" in headers["cache-control"]
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_timeout(300)
    assert len(plotly(opened.requests)) == 1
    assert opened.faults == []


def test_a_chart_that_is_explored_goes_back_to_the_drawing(visit):
    page = visit(HELM).page
    plot = explore(page)
    button = page.get_by_role("button", name="Explore")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".chart-picture")).to_be_hidden()
    button.click()
    expect(plot).to_be_hidden()
    drawn(page)


@pytest.mark.parametrize("java_script_enabled", [True, False])
def test_a_click_on_a_name_leads_to_the_model(visit, java_script_enabled):
    page = drawn(visit(HELM, java_script_enabled=java_script_enabled).page)
    page.locator("figure.chart svg:visible text", has_text=CURIE).first.click()
    page.wait_for_url(f"**/models/{CURIE_SLUG}/")


def test_a_click_on_a_point_of_the_explored_chart_leads_to_the_model(visit):
    page = visit(HELM).page
    point = explore(page).locator(".scatterlayer .point").first
    point.scroll_into_view_if_needed()
    for _ in range(4):
        point_at(page, point)
        page.mouse.down()
        page.mouse.up()
        try:
            return page.wait_for_url("**/models/helm-*/", timeout=15_000)
        except TimeoutError:  # the label went away between the two, as the chart was drawn once more
            continue
    raise AssertionError("no click on the point led to a model")


def point_at(page, point):
    """Move the mouse onto a point, until its label is there: Plotly takes a click on what it has labelled only."""
    label = page.locator(".hoverlayer .hovertext").first
    for _ in range(40):
        box = point.bounding_box()
        page.mouse.move(box["x"] - 20, box["y"] - 10)
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)
        try:
            return label.wait_for(timeout=1000)
        except TimeoutError:  # the chart was not ready for the mouse
            continue
    raise AssertionError("the point has no label under the mouse")


def test_a_model_is_followed_by_keyboard_and_its_ranks_are_said(visit):
    page = drawn(visit(HELM).page)
    assert names(page, ".followed") == []
    page.get_by_label("Highlight").focus()
    page.keyboard.type(CURIE)
    expect(page.locator(".chart [role=status]")).to_have_text(
        f"{CURIE}: rank 35 of 37 models under version 1, rank 23 of 37 models under version 2; up 12"
    )
    assert names(page, ".followed") == [f"{CURIE} 35", f"23 {CURIE}"]
    chosen = page.locator("tr.chosen")
    expect(chosen).to_have_count(2)
    expect(chosen.first).to_contain_text(CURIE)
    page.keyboard.press("Home")
    expect(page.locator(".chart [role=status]")).to_have_text("")
    expect(page.locator("tr.chosen")).to_have_count(0)
    assert names(page, ".followed") == []


def test_a_model_is_followed_while_the_mouse_is_on_its_name(visit):
    page = drawn(visit(HELM).page)
    page.locator("figure.chart svg:visible text", has_text=CURIE).first.hover()
    expect(page.locator("tr.chosen").first).to_contain_text(CURIE)
    assert names(page, ".followed") == [f"{CURIE} 35", f"23 {CURIE}"]
    page.mouse.move(5, 5)
    expect(page.locator("tr.chosen")).to_have_count(0)


def test_an_address_with_a_model_opens_with_it_in_front(visit):
    page = drawn(visit(f"{HELM}&model={CURIE_SLUG}", java_script_enabled=False).page)
    bold = page.locator("figure.chart svg:visible text[font-weight]").all_text_contents()
    assert [" ".join(text.split()) for text in bold if "curie" in text] == [f"{CURIE} 35", f"23 {CURIE}"]


def test_the_chart_follows_the_reader_from_light_to_dark(visit):
    page = drawn(visit(HELM, color_scheme="light").page)
    colour = "() => getComputedStyle(document.querySelector('.chart-whole g[data-key] text')).fill"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"before => ({colour})() !== before", arg=light)
    dark = page.evaluate(colour)
    assert [sum(int(part) for part in of[4:-1].split(",")) > 300 for of in (light, dark)] == [False, True]


@pytest.mark.parametrize("kind", ["SVG", "PNG", "PDF"])
def test_the_chart_is_saved_as_a_file(visit, kind):
    page = drawn(visit(HELM).page)
    with page.expect_download() as caught:
        page.get_by_role("link", name=kind, exact=True).click()
    assert caught.value.suggested_filename == f"rtp-helm-perspective-history.{kind.lower()}"
    content = caught.value.path().read_bytes()
    assert content.startswith({"SVG": b"<?xml", "PNG": b"\x89PNG", "PDF": b"%PDF"}[kind])


def test_without_script_the_tables_say_it_all_and_the_form_works(visit):
    page = visit(HELM, java_script_enabled=False).page
    drawn(page)
    row = page.get_by_role("region", name="Table of changes").get_by_role("row").filter(has_text=CURIE)
    expect(row).to_contain_text("35")
    expect(row).to_contain_text("+12")
    page.get_by_role("combobox", name="Models").select_option("10")
    page.get_by_role("combobox", name="Family").select_option("Cohere")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/history/?*")
    chosen = parse_qs(urlsplit(page.url).query)
    assert chosen["top"] == ["10"]
    assert chosen["family"] == ["Cohere"]
    expect(page.get_by_role("region", name="Table of changes").locator("tbody tr")).to_have_count(6)
    expect(page.get_by_text("31 hidden by the filters")).to_be_visible()


def test_a_visitor_comes_from_the_ranking_to_its_history_and_back(visit):
    page = visit("/rankings/?metric=rtp-helm-perspective&measure=toxic_fraction_unique&slice=toxic").page
    page.get_by_role("link", name="How ranks moved from version to version").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("How rankings moved")
    expect(page.get_by_text("24 of 37 ranks changed")).to_be_visible()
    page.get_by_role("region", name="Table of versions").get_by_role("link", name="1", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("HELM's RealToxicityPrompts")
    assert "version=1" in page.url
