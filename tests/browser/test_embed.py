"""What other pages show of the board, and what programs read of it, in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import CHROMIUM
from tests.browser.looking import unfit
from tests.leaderboard.conftest import CAUSAL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]


def test_the_guide_to_the_api_and_a_frame_are_accessible_and_fit_their_window(visit):
    guide = visit("/api/")
    assert guide.page.locator("h1").count() == 1
    expect(guide.page.get_by_role("button", name="Copy")).to_be_visible()
    assert unfit(guide) == []
    frame = visit("/embed/?metric=safety-starter")
    assert frame.page.locator("h1").count() == 1
    assert unfit(frame) == []


def test_a_page_of_somebody_elses_shows_the_ranking_that_was_copied(visit, live_server):
    opened = visit("/rankings/?metric=safety-starter")
    snippet = opened.page.locator("pre[id^=embed-]").first.text_content()
    page = f"<!doctype html><html lang=en><title>Elsewhere</title><main>{snippet}</main></html>"
    opened.page.route("**/elsewhere", lambda route: route.fulfill(body=page, content_type="text/html"))
    opened.page.goto("/elsewhere")
    frame = opened.page.frame_locator("iframe")
    expect(frame.get_by_role("link", name=CAUSAL)).to_be_visible()
    frame.get_by_role("link", name=CAUSAL).click()
    opened.page.wait_for_url(f"{live_server.url}/models/{CAUSAL}/")
    badge = opened.page.locator("details", has=opened.page.locator("img[src*='/badges/']")).first
    badge.locator("summary").click()
    picture = badge.locator("img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    assert opened.faults == []
