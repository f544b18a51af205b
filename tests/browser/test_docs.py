"""The documentation in a real browser: readable everywhere, formulas that fit, contents that lead to their places."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import CHROMIUM
from tests.browser.looking import EXTREMES, overflow, violations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

CUT = "elements => elements.filter(of => of.scrollWidth > of.clientWidth + 1).map(of => of.textContent)"
PAGES = {
    "Operating a board": "light",
    "Adding a scorer, a metric, a formula": "light",
    "Metrics and formulas": "dark",
}


def test_the_pages_can_be_read_and_their_formulas_fit(visit):
    opened = visit("/docs/", width=EXTREMES[0])
    page = opened.page
    for title, scheme in PAGES.items():  # long pages, on which axe takes seconds: it looks at each once
        page.goto("/docs/")
        page.emulate_media(color_scheme=scheme)
        page.get_by_role("link", name=title).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        assert violations(page) == []
        for width in (EXTREMES[1], EXTREMES[0]):
            page.set_viewport_size({"width": width, "height": 800})
            assert overflow(page) == 0
    assert page.locator(".math").count() > 20
    assert page.locator(".math").evaluate_all(CUT) == []
    page.get_by_role("link", name="Drift of a scorer", exact=True).click()
    expect(page.get_by_role("heading", name="Drift of a scorer", level=2)).to_be_in_viewport()
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="On this page")).to_be_hidden()
    assert opened.faults == []
