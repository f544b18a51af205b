"""Drift, scorers, metric, about and change log in a real browser: by eye, by keyboard, with and without JavaScript."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from playwright.sync_api import expect

from leaderboard.celery import app
from leaderboard.models import Metric
from leaderboard.services import succession
from leaderboard.services.evaluation_sets import import_sentences
from scoring.evaluation_sets import build_starter, get
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import drawn, unfit
from tests.leaderboard.conftest import keep_quickly
from tests.leaderboard.living import NAME, SLUG, drain, drift, entrant, small_metric, standing_in, submit
from tests.leaderboard.test_drift_page import check
from tests.leaderboard.test_scorers_page import calibrate
from tests.rows import Board, load_board

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

WIDTHS = (360, 1440)
DRIFT = f"/drift/?metric={SLUG}"
PAGES = {
    "drift": "/drift/",
    "checks": DRIFT,
    "metric": f"/metrics/{SLUG}/",
    "scorers": "/scorers/",
    "report card": f"/scorers/{NAME}/?card=starter/toxicity",
    "succession": f"/metrics/{SLUG}/succession/",
    "corrected": f"/metrics/{SLUG}/corrected/",
    "ranks by scorer": "/agreement/scorers/",
    "about": f"/about/?metric={SLUG}",
    "changes": "/about/changes/",
}

CHARTS = {"checks": 2, "report card": 2, "succession": 1}


@pytest.fixture(scope="module")
def drifted_rows(django_db_setup: None, django_db_blocker, tmp_path_factory: pytest.TempPathFactory) -> Board:
    """The rows of a board whose scorer was stable, changed, away, drifted, and was rescored."""
    folder = tmp_path_factory.mktemp("drifted")
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch, standing_in() as stage:
        patch.setattr(app, "send_task", lambda *_, **__: None)

        def build() -> None:
            metric = small_metric(folder)
            for number in (1, 2):
                submit(entrant(number, metric), metric)
            stage.wobble = 1
            check(metric)
            stage.down = True
            check(metric)
            stage.down = False
            drift(stage, 0.8)
            check(metric)
            drain()
            import_sentences(get("starter"), build_starter()[::8])
            calibrate()
            succession.perform(succession.request_succession(metric, "profanity", send=False))

        return keep_quickly(build)


@pytest.fixture
def board(drifted_rows: Board, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Metric:
    """That board, with nobody at work."""
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    load_board(drifted_rows)
    return Metric.objects.get(slug=SLUG)


@pytest.fixture(autouse=True)
def _scorer() -> Iterator[None]:
    with standing_in():
        yield


@pytest.mark.parametrize("name", PAGES)
def test_a_page_with_its_charts_drawn_is_accessible_and_fits_its_window(visit, name):
    opened = visit(PAGES[name])
    page = opened.page
    assert page.locator("[data-chart]").count() == CHARTS.get(name, 0)
    assert page.locator("h1").count() == 1
    for details in page.locator("details").all():
        details.locator("summary").click()
    assert unfit(opened) == []


def test_the_chart_has_a_shape_for_each_verdict_in_its_place(visit: Callable):
    page = drawn(visit(DRIFT).page)
    rows = page.get_by_role("region", name="Table of checks").locator("tbody tr")
    words = [" ".join(text.split()) for text in rows.locator("td:nth-child(2)").all_text_contents()]
    assert set(words) == {"● Stable", "▲ Changed", "◆ Drifted", "✕ Unavailable"}
    titles = page.locator("[data-chart$=checks] .chart-whole title").all_text_contents()
    checks = [title for title in titles if " UTC; " in title and "no answer" not in title]
    assert len(checks) == 3 * sum(word != "✕ Unavailable" for word in words), "one in each panel"


def test_a_visitor_goes_from_the_ranking_to_what_is_measured_to_the_check_and_to_what_it_moved(visit, board):
    page = visit(f"/rankings/?metric={SLUG}").page
    page.get_by_role("link", name="What is measured and how").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("what is measured and how")
    page.get_by_role("link", name="The control check of").click()
    expect(page.get_by_role("heading", name="The check of")).to_contain_text("Drifted")
    page.get_by_role("link", name="How ranks moved from version 1 to 2").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("How rankings moved")
    page.get_by_role("navigation", name="Site").get_by_role("link", name="About").click()
    page.get_by_role("link", name="The whole change log").click()
    page.get_by_label("Kind of event").select_option("drift")
    page.wait_for_url("**kind=drift**")
    expect(page.locator(".log > li")).to_have_count(1)
    page.get_by_role("link", name="The check in full").click()
    expect(page.get_by_role("heading", name="The check of")).to_contain_text("Drifted")


def test_without_script_the_tables_say_it_all_and_the_forms_work(visit):
    page = visit(DRIFT, java_script_enabled=False).page
    drawn(page)
    expect(page.get_by_role("region", name="Table of checks")).to_contain_text("Drifted")
    page.get_by_role("region", name="Distances by attribute").get_by_role("link", name="insult").click()
    page.wait_for_url("**attribute=insult**")
    expect(page.get_by_role("heading", name="Before and after: insult")).to_be_visible()


def test_the_picture_for_previews_is_there_and_small(live_server):
    picture = Path(settings.BASE_DIR) / "static" / "img" / "preview.png"
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert (int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) == (1200, 630)
    assert len(content) < 40_000
