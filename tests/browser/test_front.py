"""The front page as it meets somebody: the answer stands above the fold."""

import pytest

from tests.browser.conftest import CHROMIUM
from tests.browser.looking import unfit

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

ROWS_IN_SIGHT = """() => [...document.querySelectorAll('.leading-models li')]
    .filter(row => row.getBoundingClientRect().bottom <= innerHeight).length"""


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_five_known_models_are_ranked_in_the_first_screen(visit, width, height):
    page = visit("/", width=width).page
    page.set_viewport_size({"width": width, "height": height})
    assert page.evaluate(ROWS_IN_SIGHT) >= 5
    assert "baseline" not in page.locator(".leaders").inner_text()


def test_it_can_be_read_by_everyone(visit):
    assert unfit(visit("/")) == []
