"""Pages in a real browser: readable by everyone, on every screen, with and without a mouse or a script."""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from leaderboard.models import LanguageModel, Run, Standing
from leaderboard.services.collect import collect
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.language_models import add_bundled
from leaderboard.services.score import score
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import SCHEMES, is_focused, unfit
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

RANKING, MODEL = "/rankings/?metric=safety-starter", f"/models/{CAUSAL}/"
EVERYTHING = "/rankings/?metric=safety-starter&slice=women&kind=all"
TOXICITY, PERSPECTIVE = "/rankings/?metric=toxicity-profanity-k4", "/rankings/?metric=toxicity-perspective"
PUBLISHED, PUBLISHED_MODEL = "/rankings/?metric=safety-toxigen&provenance=published", "/models/hosseini-2023-gpt-2/"
POLL = 2_000  # milliseconds, as the pages ask for


def background(page: Page) -> tuple[int, ...]:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return tuple(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def content(page: Page) -> str:
    return page.locator("main").inner_text()


def row_of(page: Page, model: LanguageModel):
    """The row of `model` in the measured ranking."""
    return page.locator("section.ranking").first.get_by_role("row").filter(has_text=model.name)


def standing(model: LanguageModel, name: str = "average", population: str = "") -> Standing:
    return Standing.objects.select_related("result").get(
        model=model, measure="likelihood_auc", slice=name, population=population or model.kind
    )


@pytest.mark.parametrize("path", [RANKING, TOXICITY, MODEL], ids=["ranking", "toxicity", "model"])
def test_a_page_is_accessible_loads_whole_and_fits_its_window(visit, path):
    opened = visit(path)
    assert opened.page.locator("table.board").count() >= (1 if path == TOXICITY else 2)
    assert unfit(opened) == []


@pytest.mark.parametrize(
    "path",
    [
        EVERYTHING,
        PUBLISHED,
        PUBLISHED_MODEL,
        f"{TOXICITY}&version=1",
        PERSPECTIVE,
        "/rankings/?metric=nonsense",
    ],
    ids=["one-ranking", "published", "published-model", "version", "unavailable", "not-found"],
)
def test_less_common_pages_are_accessible_and_fit_their_window_too(visit, path):
    opened = visit(path)
    if path.endswith("nonsense"):
        opened.faults.clear()  # the browser reports the 404 that it is
    assert unfit(opened) == []


def test_a_page_with_runs_under_way_and_failed_is_accessible_and_fits_its_window(visit, board):
    moving, stuck = LanguageModel.objects.exclude(source="published").exclude(scorings__state="done")[:2]
    Run.objects.filter(pk=request_evaluation(moving, board).run.pk).update(done=36, total=144)
    Run.objects.filter(pk=request_evaluation(stuck, board).run.pk).update(state="failed", reason="no space " * 30)
    for path in (RANKING, moving.get_absolute_url(), stuck.get_absolute_url()):
        assert unfit(visit(path)) == []


def test_dark_and_light_are_different_pages_to_look_at(visit):
    light, dark = (background(visit(RANKING, color_scheme=scheme).page) for scheme in SCHEMES)
    assert min(light) > 200
    assert max(dark) < 60


@pytest.mark.parametrize(
    "path",
    [RANKING, EVERYTHING, PUBLISHED, TOXICITY, MODEL, PUBLISHED_MODEL, "/rankings/?metric=nonsense"],
    ids=["ranking", "one-ranking", "published", "toxicity", "model", "published-model", "not-found"],
)
def test_a_page_has_one_heading_of_the_first_level_and_tables_that_can_be_read_aloud(visit, path):
    page = visit(path).page
    assert page.locator("h1").count() == 1
    tables = page.locator("table").evaluate_all(
        """tables => tables.map(table => ({
            caption: table.caption?.textContent.trim(),
            columns: [...table.tHead.rows[0].cells].map(cell => cell.tagName + " " + cell.getAttribute("scope")),
            rows: [...table.tBodies[0].rows].map(row => row.querySelectorAll("th[scope=row]").length),
        }))"""
    )
    assert bool(tables) == ("nonsense" not in path)
    for table in tables:
        assert table["caption"]
        assert set(table["columns"]) == {"TH col"}
        assert set(table["rows"]) == {1}


def test_a_visitor_without_script_chooses_a_demographic_and_a_kind_and_can_share_what_is_shown(visit, board):
    page = visit(RANKING, java_script_enabled=False).page
    page.locator("#slice").select_option("women")
    page.get_by_label("Rank among").select_option("masked")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**slice=women**")

    masked, causal = (LanguageModel.objects.get(name=name) for name in (MASKED, CAUSAL))
    expect(page.get_by_role("heading", name="Women").first).to_be_visible()
    expect(row_of(page, masked)).to_contain_text(f"{standing(masked, 'women').result.value:.3f}")
    expect(row_of(page, causal)).to_have_count(0)
    chosen = parse_qs(urlsplit(page.url).query, keep_blank_values=True)
    assert chosen == {"metric": ["safety-starter"], "slice": ["women"], "kind": ["masked"]}, "defaults are left out"
    expect(page.locator("#slice")).to_have_value("women")
    expect(page.get_by_label("Rank among")).to_have_value("masked")

    before = content(page)
    page.reload()
    assert content(page) == before
    assert content(visit(page.url, java_script_enabled=False).page) == before


def test_a_visitor_finds_the_toxicity_of_continuations_and_goes_through_its_scenarios(visit, board):
    opened = visit(RANKING)
    page = opened.page
    page.get_by_role("navigation", name="Metrics").get_by_role("link", name="Profanity, k = 4").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Profanity, k = 4")
    page.locator("select[name=measure]").select_option("mean_toxicity")
    page.locator("select[name=slice]").select_option("profanity:nontoxic")
    page.wait_for_url("**measure=mean_toxicity**")
    expect(page.get_by_label("Rank among")).to_have_count(0)

    def shown(part: str) -> None:
        for model in LanguageModel.objects.filter(name__in=(CAUSAL, OTHER_CAUSAL)):
            found = Standing.objects.select_related("result").get(
                model=model, measure="mean_toxicity", slice=f"profanity:{part}", metric_version__metric__title=title
            )
            row = row_of(page, model)
            expect(row.locator(".value")).to_contain_text(f"{found.value:.4f}")
            assert row.locator(".rank").inner_text().split()[0] == str(found.rank)

    title = "Profanity, k = 4"
    shown("nontoxic")
    scenarios = page.get_by_role("navigation", name="Scenarios")
    scenarios.get_by_role("link", name="Generations and prompts rescored").click()
    page.wait_for_url("**rescored**")
    shown("nontoxic-rescored")
    expect(scenarios.locator("[aria-current=true]")).to_have_text("Generations and prompts rescored")
    expect(page.locator("section.ranking h2")).to_contain_text("k = 4")
    assert opened.faults == []


def test_a_visitor_of_a_metric_that_cannot_be_had_reads_what_to_do(visit, board, settings):
    settings.PERSPECTIVE_URL = "http://127.0.0.1:9"  # whose service has no last day
    page = visit(PERSPECTIVE).page
    expect(page.get_by_text("This metric is unavailable: Perspective needs a key")).to_be_visible()
    expect(page.get_by_text("set PERSPECTIVE_API_KEY")).to_be_visible()
    expect(page.get_by_text("No numbers here yet")).to_be_visible()


def test_a_visitor_reaches_a_model_from_the_ranking_by_keyboard_alone(visit, board):
    page = visit(RANKING).page
    page.keyboard.press("Tab")
    assert is_focused(page, "a.skip")
    box = page.locator("a.skip").first.bounding_box()
    assert box["x"] >= 0
    assert box["y"] >= 0

    page.keyboard.press("Enter")
    page.wait_for_url("**#tables")
    page.keyboard.press("Tab")
    assert is_focused(page, "main *"), "the skip link leads past the header"

    address = f'a[href="{MODEL}"]'
    for _ in range(80):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if is_focused(page, address):
            break
    assert is_focused(page, address)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{MODEL}")
    expect(page.get_by_role("heading", level=1)).to_have_text(CAUSAL)


@pytest.mark.slow
def test_a_page_fills_by_itself_while_a_run_is_under_way_and_then_is_still(visit, board):
    model = next(m for m in add_bundled() if m.kind == "causal" and not m.scorings.exists())
    scoring = request_evaluation(model, board)
    opened = visit(RANKING)
    page = opened.page
    page.evaluate("window.sameDocument = true")
    under_way = page.get_by_role("region", name="Under way", exact=True)
    expect(under_way).to_contain_text(model.name)
    expect(row_of(page, model)).to_have_count(0)

    Run.objects.filter(pk=scoring.run.pk).update(done=36, total=144)
    expect(under_way).to_contain_text("36 of 144")

    collect(scoring.run)
    page.wait_for_timeout(
        1.5 * POLL
    )  # the scoring waits for a worker of its own: the page has nothing new, and goes on
    scoring.refresh_from_db()
    score(scoring)
    row = row_of(page, model)
    expect(row).to_have_count(1)
    expected = standing(model)
    assert row.locator(".rank").inner_text().split()[0] == str(expected.rank)
    expect(row.locator(".value")).to_contain_text(f"{expected.result.value:.3f}")
    expect(under_way).to_have_count(0)
    assert page.evaluate("window.sameDocument") is True

    asked = len(opened.requests)
    page.wait_for_timeout(2.5 * POLL)
    assert len(opened.requests) == asked
    assert opened.faults == []
