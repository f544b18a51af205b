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
    "/docs/operating/": "light",
    "/docs/extending/": "light",
    "/docs/changes/": "dark",
    "/docs/metrics/": "dark",
    "/docs/glossary/": "light",
    "/docs/metrics/safety_indifferent/": "dark",
    "/docs/metrics/lexicon_frequency/": "light",
    "/docs/methods/drift/": "light",
}


def test_the_pages_can_be_read_and_their_formulas_fit(visit):
    opened = visit("/docs/", width=EXTREMES[0])
    page = opened.page
    for address, scheme in PAGES.items():  # long pages, on which axe takes seconds: it looks at each once
        page.emulate_media(color_scheme=scheme)
        page.goto(address)
        assert violations(page) == []
        for width in (EXTREMES[1], EXTREMES[0]):
            page.set_viewport_size({"width": width, "height": 800})
            assert overflow(page) == 0
            assert page.locator(".math").evaluate_all(CUT) == []
            for drawing in page.locator(".drawing svg").all():
                assert drawing.bounding_box()["width"] > 0.7 * min(width, 480)
    assert page.locator(".math").count() > 4
    page.get_by_role("link", name="What a check can find", exact=True).click()
    expect(page.get_by_role("heading", name="What a check can find", level=2)).to_be_in_viewport()
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="On this page")).to_be_hidden()
    assert opened.faults == []
