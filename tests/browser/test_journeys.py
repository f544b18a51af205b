"""The ways of a visitor, a submitter and an operator: in how few actions, and with what in sight at each step."""

import pytest
from playwright.sync_api import Locator, Page, expect

from leaderboard.models import Submission
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import above_fold, keep_picture
from tests.browser.test_accounts import _no_attempts_yet, log_in, person
from tests.browser.test_operate import REASON, failed
from tests.browser.test_submit import ID, hub

__all__ = ["_no_attempts_yet", "failed", "hub"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
    pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)], ids=["desktop", "phone"]),
]


class Walk:
    """Somebody's way over pages, each action counted; of each state a picture is kept."""

    def __init__(self, page: Page, height: int) -> None:
        self.page, self.actions = page, 0
        page.set_viewport_size({"width": page.viewport_size["width"], "height": height})

    def click(self, target: Locator) -> None:
        self.actions += 1
        target.click()

    def choose(self, target: Locator, value: str) -> None:
        self.actions += 1
        target.select_option(value)

    def enter(self, target: Locator, text: str, key: str = "") -> None:
        self.actions += 1
        target.fill(text)
        if key:
            target.press(key)

    def see(self, *targets: Locator) -> None:
        """All of them, without scrolling."""
        hidden = [str(target) for target in targets if not above_fold(target)]
        keep_picture(self.page)
        assert hidden == []


def test_a_visitor_reads_who_leads_for_women_and_compares_two_models(visit, width, height):
    opened = visit("/", width=width)
    page = opened.page
    walk = Walk(page, height)
    walk.see(
        page.get_by_role("heading", level=1, name="Which language models are less harmful"),
        page.get_by_text("Scorers today"),
        *page.locator(".leading-models li").all()[:5],
    )

    walk.click(page.get_by_role("link", name="Women", exact=True))
    expect(page.get_by_role("heading", level=2, name="Safety score, Women")).to_be_visible()
    rows = page.locator("table.board").first.locator("tbody tr:not(.baseline)")
    walk.see(page.get_by_role("heading", level=1), *([] if width < 1000 else rows.all()[:2]))

    walk.click(rows.nth(0).get_by_role("checkbox"))
    walk.click(rows.nth(1).get_by_role("checkbox"))
    walk.click(page.get_by_role("button", name="Compare the ticked models"))
    expect(page.get_by_role("heading", level=2, name="Safety score, Women")).to_be_visible()
    walk.see(page.get_by_role("heading", level=1, name="Compare models"), page.locator(".chips li").nth(1))
    assert walk.actions == 4

    walk.enter(page.get_by_role("searchbox", name="Search models"), "misogyny", "Enter")
    walk.see(page.get_by_role("link", name="Misogyny by the Farrell lexicon"))
    assert walk.actions == 5
    assert opened.faults == []


def test_a_submitter_sends_a_hub_model(visit, hub, width, height):
    person()
    opened = visit("/accounts/login/?next=/", width=width)
    page = opened.page
    log_in(page)
    walk = Walk(page, height)

    walk.click(page.get_by_role("link", name="Submit a model").first)
    walk.see(page.get_by_role("heading", level=1), page.get_by_role("link", name="Submit a hub model"))
    walk.click(page.get_by_role("link", name="Submit a hub model"))
    walk.see(page.get_by_label("Model on the hub"), page.get_by_role("button", name="Look it up"))
    walk.enter(page.get_by_label("Model on the hub"), ID)
    walk.click(page.get_by_role("button", name="Look it up"))
    expect(page.get_by_text(hub.repositories[ID].revisions["main"])).to_be_visible()
    keep_picture(page)
    walk.click(page.get_by_role("button", name="Submit", exact=True))
    page.wait_for_url("**/submissions/*/")
    walk.see(page.get_by_role("heading", level=1), page.locator("#progress .state, main .state").first)
    assert walk.actions == 5
    assert Submission.objects.count() == 1
    assert opened.faults == []


def test_an_operator_finds_what_failed_and_has_it_done_again(visit, failed, width, height):
    person("olga", "operator")
    opened = visit("/accounts/login/?next=/operate/", width=width)
    page = opened.page
    log_in(page, "olga")
    walk = Walk(page, height)

    failures = page.get_by_role("link", name="1 scoring, failed")
    # A phone has the state of workers and queues first, which is longer where something is wrong with them.
    walk.see(page.get_by_role("heading", level=1, name="Operate"), *([] if width < 1000 else [failures]))
    walk.click(failures)
    walk.see(page.get_by_text(REASON))
    walk.click(page.get_by_role("link", name="Retry the 1 failed"))
    walk.see(page.get_by_role("main").get_by_role("button", name="Retry"))
    walk.click(page.get_by_role("main").get_by_role("button", name="Retry"))
    walk.see(page.get_by_text("Queued again: 1 of 1."))
    assert walk.actions == 3
    failed.refresh_from_db()
    assert failed.state == "queued"
    assert opened.faults == []
