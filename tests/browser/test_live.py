"""Forms that show each choice at once, where there is a script: no button, no new document, the focus where it was."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import CHROMIUM
from tests.browser.looking import drawn, is_focused, violations
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

HISTORY = "/history/?metric=rtp-helm-perspective"
DEMOGRAPHICS = "/demographics/?metric=safety-toxigen"
COMPARE = f"/compare/?metric=safety-starter&m={CAUSAL}&m={OTHER_CAUSAL}"
CHOICES = {
    "history": (HISTORY, "family", "Cohere", "31 hidden by the filters"),
    "history of another metric": (HISTORY, "metric", "rtp-perspective", "How rankings moved: RealToxicityPrompts by"),
    "demographics": (DEMOGRAPHICS, "demographic", "women", "Women: its own ranking"),
    "compare": (COMPARE, "slice", "women", "Likelihood AUC, Women"),
}


@pytest.mark.parametrize(("address", "field", "value", "words"), CHOICES.values(), ids=CHOICES)
def test_a_choice_is_shown_at_once(visit, address, field, value, words):
    opened = visit(address)
    page = opened.page
    page.evaluate("window.sameDocument = true")
    select = page.locator(f".live select[name={field}]")
    usual = select.input_value()
    expect(page.get_by_role("button", name="Show", exact=True)).to_have_count(0)

    select.focus()
    select.select_option(value)
    page.wait_for_url(f"**{field}={value}**")
    expect(page.locator("main")).to_contain_text(words)
    assert page.evaluate("window.sameDocument") is True
    assert is_focused(page, f"select[name={field}]")
    expect(page.locator("body > [role=status]")).to_contain_text("Shown now: ")
    assert violations(drawn(page)) + opened.faults == []

    page.go_back()
    expect(page.locator(f".live select[name={field}]")).to_have_value(usual)
    expect(page.locator("main")).not_to_contain_text(words)
    assert page.url.endswith(address)


def test_what_a_chart_highlights_is_kept_in_the_address_without_asking_for_the_page_again(visit):
    opened = visit(HISTORY)
    page = drawn(opened.page)
    count = len(opened.requests)
    slug = page.locator("tr[data-model]").first.get_attribute("data-model")
    page.get_by_label("Highlight").select_option(slug)
    page.wait_for_url(f"**model={slug}")
    expect(page.locator("tr.chosen").first).to_be_visible()
    assert opened.requests[count:] == []
