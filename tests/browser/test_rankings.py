"""The rankings page in a real browser: found, sorted, filtered, paged, taken away; with and without a script."""

import csv
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from leaderboard.models import LanguageModel, Metric, Result, Run, Scoring, Standing
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.language_models import add_bundled
from leaderboard.services.publish import publish_standings
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import is_focused, unfit

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

TOXICITY = "/rankings/?metric=toxicity-profanity-k4"
MANY = 60


@pytest.fixture
def crowd(board: Metric) -> Metric:
    """Sixty more models on the board of toxicity, in three families."""
    metric = Metric.objects.get(slug="toxicity-profanity-k4")
    version = metric.current_version()
    template = version.scorings.first()
    results = list(template.results.all())
    for number in range(MANY):
        model = LanguageModel.objects.create(
            slug=f"crowd-{number}",
            name=f"Crowd {number:02}",
            family=f"Family {number % 3}",
            kind="causal",
            source="uploaded",
            parameters=10**6 * (number + 1) if number % 2 else None,
        )
        scoring = Scoring.objects.create(
            model=model, metric_version=version, state="done", scored_at=template.scored_at, artefact=template.artefact
        )
        Result.objects.bulk_create(
            Result(scoring=scoring, measure=r.measure, slice=r.slice, value=round(0.01 * number, 2), n=10)
            for r in results
        )
    publish_standings(version)
    return metric


def names(page: Page) -> list[str]:
    """The models of the first table, in order."""
    return page.locator("table.board").first.locator("tbody th > a:first-child").all_inner_texts()


def asked(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def restores(route: Route) -> bool:
    """Whether a request asks for a page that the reader goes back or forward to."""
    return "hx-history-restore-request" in route.request.headers


def in_order(key: str, **filters: str) -> list[str]:
    """The models by a field of their standings."""
    rows = Standing.objects.filter(
        metric_version__metric__slug="toxicity-profanity-k4",
        measure="expected_max_toxicity",
        slice="profanity:all",
        **filters,
    )
    return list(rows.order_by(key, "rank", "model__name").values_list("model__name", flat=True))


def test_a_visitor_searches_sorts_filters_and_goes_back_without_a_reload(visit, crowd):
    opened = visit(TOXICITY)
    page = opened.page
    page.evaluate("window.sameDocument = true")
    everyone = names(page)
    assert everyone == in_order("rank")[:50]

    page.get_by_label("Search", exact=True).press_sequentially("crowd-1", delay=20)
    expect(page.get_by_text("51 hidden by filters")).to_be_visible()
    assert names(page) == in_order("rank", model__slug__startswith="crowd-1")
    assert asked(page)["q"] == ["crowd-1"]
    assert is_focused(page, "#search")
    expect(page.locator("#said")).to_contain_text("11 of 62 models")

    page.get_by_role("link", name="Model", exact=True).first.click()
    expect(page.locator("thead [aria-sort]")).to_have_attribute("aria-sort", "ascending")
    assert names(page) == sorted(names(page))
    assert page.evaluate("document.activeElement.id").endswith("-model")
    expect(page.locator("#said")).to_contain_text("Sorted by model")

    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Family").first.focus()
    page.get_by_label("Family").first.select_option("Family 1")
    expect(page.get_by_text("57 hidden by filters")).to_be_visible()
    assert names(page) == ["Crowd 01", "Crowd 10", "Crowd 13", "Crowd 16", "Crowd 19"]
    assert is_focused(page, "#family")
    expect(page.get_by_label("Family").first).to_be_visible()

    page.go_back()
    expect(page.get_by_text("51 hidden by filters")).to_be_visible()
    expect(page.get_by_label("Search", exact=True)).to_have_value("crowd-1")
    page.go_back()
    page.wait_for_url(lambda address: "sort" not in address)
    expect(page.get_by_text("51 hidden by filters")).to_be_visible()
    page.go_forward()
    expect(page.locator("th[aria-sort] a")).to_contain_text("Model")
    page.get_by_role("link", name="Show all 62").click()
    expect(page.get_by_text("hidden by filters")).to_have_count(0)
    expect(page.get_by_label("Search", exact=True)).to_have_value("")
    assert page.evaluate("window.sameDocument") is True
    assert opened.faults == []


def gone_back(visit) -> tuple[Page, Route]:
    """A page whose reader went back from a sorted view of a search, and the answer to that, held back."""
    page = visit(f"{TOXICITY}&q=crowd-1").page
    page.get_by_role("link", name="Model", exact=True).first.click()
    page.wait_for_url("**sort=model**")
    held: list[Route] = []
    page.route(lambda _: True, lambda route: held.append(route) if restores(route) else route.continue_())
    page.go_back(wait_until="commit")
    page.wait_for_url(lambda address: "sort" not in address)
    while not held:
        page.wait_for_timeout(20)
    return page, held[0]


def test_a_late_answer_to_going_back_does_not_undo_what_was_asked_for_since(visit, crowd):
    page, answer = gone_back(visit)
    page.get_by_role("link", name="Show all 62").click()
    expect(page.get_by_text("hidden by filters")).to_have_count(0)
    answer.continue_()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_text("hidden by filters")).to_have_count(0)


def test_progress_that_asks_for_itself_does_not_keep_a_reader_from_going_back(visit, crowd):
    page, answer = gone_back(visit)
    asks = "document.getElementById('progress').dispatchEvent(new Event('htmx:beforeRequest', {bubbles: true}))"
    page.evaluate(asks)
    answer.continue_()
    expect(page.locator("th[aria-sort] a")).to_contain_text("Rank")


def test_a_visitor_turns_pages_and_shares_one(visit, crowd):
    opened = visit(TOXICITY)
    page = opened.page
    page.get_by_role("navigation", name="Pages of").get_by_role("link", name="Page 2").click()
    page.wait_for_url("**page=2**")
    expect(page.get_by_text("51 to 62 of 62")).to_be_visible()
    assert names(page) == in_order("rank")[50:]
    assert names(visit(page.url).page) == names(page)
    page.get_by_label("Search", exact=True).fill("crowd")
    expect(page.get_by_text("2 hidden by filters")).to_be_visible()
    assert "page" not in asked(page)
    assert opened.faults == []


def test_an_enter_in_the_search_is_one_step_to_go_back_over(visit, crowd):
    page = visit(TOXICITY).page
    before = page.evaluate("history.length")
    page.get_by_label("Search", exact=True).fill("crowd-2")
    page.keyboard.press("Enter")
    expect(page.get_by_text("51 hidden by filters")).to_be_visible()
    page.wait_for_timeout(800)
    assert page.evaluate("history.length") == before + 1


def test_columns_are_chosen_and_the_choice_stays_open(visit, crowd):
    page = visit(TOXICITY).page
    page.get_by_text("Columns and rows").click()
    page.get_by_label("Family", exact=True).last.check()
    expect(page.get_by_role("columnheader", name="Family")).to_be_visible()
    page.get_by_label("Without a score", exact=True).uncheck()
    expect(page.get_by_role("columnheader", name="Without a score")).to_have_count(0)
    expect(page.get_by_label("Family", exact=True).last).to_be_visible()
    page.get_by_label("Rows a page").select_option("100")
    expect(page.get_by_role("navigation", name="Pages of")).to_have_count(0)
    assert len(names(page)) == MANY + 2
    assert asked(page)["rows"] == ["100"]


def test_a_visitor_takes_the_table_away_as_it_is_shown_and_copies_its_citation(visit, crowd, tmp_path):
    opened = visit(f"{TOXICITY}&family=Family+2&sort=-value", permissions=["clipboard-read", "clipboard-write"])
    page = opened.page
    shown = names(page)
    with page.expect_download() as caught:
        page.get_by_role("link", name="CSV", exact=True).click()
    file = caught.value
    assert file.suggested_filename.startswith("toxicity-profanity-k4_v1_expected-max-toxicity_profanity-all_")
    with open(file.path(), newline="", encoding="utf-8") as opened_file:
        assert [row["model"] for row in csv.DictReader(opened_file)] == shown
    with page.expect_download() as caught:
        page.get_by_role("link", name="JSON", exact=True).click()
    with open(caught.value.path(), encoding="utf-8") as opened_file:
        assert [entry["model"] for entry in json.load(opened_file)["entries"]] == shown
    page.get_by_text("Cite this view").click()
    page.get_by_role("button", name="Copy text").click()
    expect(page.locator("button[data-copy^=cite]")).to_have_text("Copied")
    citation = page.evaluate("navigator.clipboard.readText()")
    assert "Metric version 1" in citation
    cited = visit(citation.rsplit(" ", 1)[1])
    assert names(cited.page) == shown
    expect(cited.page.locator(".as-of")).to_be_visible()
    page.get_by_role("button", name="Copy BibTeX", exact=True).click()
    expect(page.locator("button[data-copy^=bibtex]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("@misc{plumbline-toxicity-profanity-k4-v1-")
    assert opened.faults == []


def test_a_number_is_asked_what_it_is_by_keyboard_and_without_script(visit, crowd):
    for script in (True, False):
        page = visit(TOXICITY, java_script_enabled=script).page
        page.get_by_role("button", name="What is this: Rank").focus()
        page.keyboard.press("Enter")
        answer = page.locator(".explanation:popover-open") if script else page.locator("[id$=-rank].explanation")
        expect(answer).to_contain_text("The place by value among all the models")
        expect(answer.get_by_role("link", name="More about")).to_be_visible()
        page.keyboard.press("Escape")
        expect(answer).to_be_hidden()


def test_without_script_a_visitor_searches_filters_sorts_and_goes_back(visit, crowd):
    page = visit(TOXICITY, java_script_enabled=False).page
    page.get_by_label("Search", exact=True).fill("crowd-1")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**q=crowd-1")
    assert asked(page) == {"metric": ["toxicity-profanity-k4"], "q": ["crowd-1"]}, "defaults are left out"
    page.get_by_role("link", name="Model", exact=True).first.click()
    page.wait_for_url("**sort=model**")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Family").first.select_option("Family 0")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**family=Family+0**")
    assert names(page) == ["Crowd 12", "Crowd 15", "Crowd 18"]
    assert asked(page)["sort"] == ["model"], "the form keeps the order"
    page.get_by_role("link", name="Show all 62").click()
    expect(page.get_by_text("hidden by filters")).to_have_count(0)
    page.go_back()
    assert names(page) == ["Crowd 12", "Crowd 15", "Crowd 18"]


def test_a_visitor_asks_for_a_day(visit, crowd):
    opened = visit(TOXICITY)
    page = opened.page
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("As of the end of").fill("2020-01-01")
    expect(page.get_by_text("No such ranking stood at the end of that day")).to_be_visible()
    page.get_by_label("As of the end of").fill("2100-01-01")
    expect(page.locator(".as-of")).to_contain_text("As of 1 January 2100: that day (UTC) had not ended")
    page.get_by_role("link", name="Show it as it is now").click()
    expect(page.locator(".as-of")).to_have_count(0)
    expect(page.get_by_label("As of the end of")).to_have_value("")
    assert opened.faults == []


def test_another_metric_is_a_tab_away_without_a_reload(visit, crowd):
    opened = visit(TOXICITY)
    page = opened.page
    page.evaluate("window.sameDocument = true")
    page.get_by_role("navigation", name="Metrics").get_by_role("link", name="Safety on ToxiGen").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Safety on ToxiGen")
    expect(page).to_have_title("Safety on ToxiGen · Plumbline")
    page.get_by_label("Search", exact=True).fill("albert")
    expect(page.get_by_text("hidden by filters").first).to_be_visible()
    assert asked(page) == {"metric": ["safety-toxigen"], "q": ["albert"]}
    page.go_back()
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Profanity, k = 4")
    assert page.evaluate("window.sameDocument") is True
    assert opened.faults == []


def test_polling_for_progress_keeps_the_view_that_was_chosen(visit, crowd, board):
    model = next(m for m in add_bundled() if m.kind == "causal" and not m.scorings.exists())
    scoring = request_evaluation(model, crowd)
    opened = visit(TOXICITY)
    page = opened.page
    page.get_by_label("Search", exact=True).fill("crowd-1")
    expect(page.get_by_text("51 hidden by filters")).to_be_visible()
    Run.objects.filter(pk=scoring.run.pk).update(done=36, total=144)
    expect(page.get_by_role("region", name="Under way", exact=True)).to_contain_text("36 of 144")
    there = page.url
    version = crowd.current_version()
    done = version.scorings.filter(state="done").first()
    late = LanguageModel.objects.create(slug="crowd-1-late", name="Crowd late", kind="causal", source="uploaded")
    new = Scoring.objects.create(model=late, metric_version=version, state="done", scored_at=done.scored_at)
    Result.objects.bulk_create(
        Result(scoring=new, measure=r.measure, slice=r.slice, value=0.9, n=10) for r in done.results.all()
    )
    publish_standings(version)
    expect(page.get_by_role("link", name="Crowd late")).to_be_visible()
    assert names(page) == in_order("rank", model__slug__startswith="crowd-1")
    assert page.url == there
    expect(page.get_by_label("Search", exact=True)).to_have_value("crowd-1")
    assert opened.faults == []


def test_a_page_with_all_its_parts_open_is_accessible_and_fits_its_window(visit, crowd):
    opened = visit(f"{TOXICITY}&family=Family+0&sort=-parameters&as_of=2100-01-01")
    page = opened.page
    page.get_by_text("Columns and rows").click()
    page.get_by_text("Cite this view").click()
    page.get_by_role("button", name="What is this: Rank").click()
    assert unfit(opened) == []


def test_the_head_stays_in_sight_and_nothing_but_the_page_scrolls(visit, crowd):
    page = visit(TOXICITY).page
    page.mouse.wheel(0, 1200)
    head = page.locator("table.board thead th").nth(1)
    page.wait_for_function("scrollY >= 1000")
    assert abs(head.bounding_box()["y"]) < 2
    assert page.locator(".grid, .grid table").evaluate_all(
        "boxes => boxes.every(box => box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight + 1)"
    )


def test_on_a_phone_each_row_is_a_card_with_its_labels(visit, crowd):
    page = visit(TOXICITY, 390).page
    row = page.locator("table.board tbody tr").first
    assert row.bounding_box()["width"] <= 390
    cell = row.locator("td[data-label]").first
    label = cell.evaluate("cell => getComputedStyle(cell, '::before').content")
    assert label == f'"{cell.get_attribute("data-label")}"'


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper_all_columns_are_there_in_light_colours_and_no_form(visit, board, scheme):
    page = visit("/rankings/?metric=safety-toxigen&measure=safety_score", 1032, color_scheme=scheme).page  # A4, lying
    page.emulate_media(media="print")
    expect(page.locator("form.filters")).to_be_hidden()
    expect(page.get_by_text("Metric version 1:")).to_be_visible()
    heads = page.locator("table.board").first.locator("thead th")
    assert page.locator("table.board").first.locator("thead .col-slice").count() == 13
    edges = heads.evaluate_all("cells => cells.map(cell => cell.getBoundingClientRect().right)")
    assert max(edges) <= 1032
    overlaps = heads.evaluate_all("cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth + 1).length")
    assert overlaps == 0
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert min(int(part) for part in background[4:-1].split(",")) > 200


def test_the_table_is_ten_tabs_away_and_help_costs_none(visit, board):
    page = visit("/rankings/?metric=safety-toxigen&measure=safety_score").page
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # to skip to the ranking
    tabs = 1
    while not is_focused(page, "table.board *"):
        page.keyboard.press("Tab")
        tabs += 1
        assert tabs <= 10
    help_stops = page.locator("table.board thead button").evaluate_all(
        "buttons => buttons.filter(button => button.tabIndex >= 0).length"
    )
    assert help_stops == 0
