"""The documentation in a real browser: readable everywhere, formulas that fit, contents that lead to their places."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import CHROMIUM
from tests.browser.looking import unfit

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

CUT = "elements => elements.filter(of => of.scrollWidth > of.clientWidth + 1).map(of => of.textContent)"


def test_the_pages_can_be_read_and_their_formulas_fit(visit):
    opened = visit("/docs/")
    for link in ("Operating a board", "Adding a scorer, a metric, a formula", "Metrics and formulas"):
        opened.page.goto("/docs/")
        opened.page.get_by_role("link", name=link).click()
        expect(opened.page.get_by_role("heading", level=1)).to_have_text(link)
        assert unfit(opened) == []
    page = opened.page
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.locator(".math").count() > 20
    assert page.locator(".math").evaluate_all(CUT) == []
    page.get_by_role("link", name="Drift of a scorer", exact=True).click()
    expect(page.get_by_role("heading", name="Drift of a scorer", level=2)).to_be_in_viewport()
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="On this page")).to_be_hidden()
