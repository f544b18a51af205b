"""The operator's way in a real browser: every page looked at, work retried, a model hidden, and all of it on record."""

import pytest
from django.core.cache import cache
from playwright.sync_api import Page, expect

from leaderboard.models import LanguageModel, Scoring
from leaderboard.services import workers
from leaderboard.services.rescore import open_rescoring
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import WIDTHS, overflow, unfit, violations
from tests.browser.test_accounts import log_in, person
from tests.leaderboard.conftest import CAUSAL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

REASON = "the disk was full, and the one beside it too; see the log of that night"


@pytest.fixture
def failed(board, monkeypatch) -> Scoring:
    """A scoring that failed in a rescoring that goes on."""
    cache.clear()
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 0.05)
    rescoring = open_rescoring(board, "a new library of matrices")
    scoring = rescoring.to_version.scorings.get(model__slug=CAUSAL)
    Scoring.objects.filter(pk=scoring.pk).update(state="failed", reason=REASON, attempts=5)
    return scoring


def confirm(page: Page, button: str) -> None:
    page.get_by_role("main").get_by_role("button", name=button).click()


def problems(page: Page) -> list[str]:
    """What is wrong with a page that is made like one looked at in full: in the narrowest window, in one scheme."""
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    found = [f"{page.url}: {of}" for of in violations(page)]
    return found + ([f"{page.url}: wider than the window"] if overflow(page) else [])


@pytest.mark.parametrize("java_script", [True, False], ids=["script", "no-script"])
def test_an_operator_sees_what_failed_retries_it_hides_a_model_and_finds_both_on_record(visit, failed, java_script):
    person("olga", "operator")
    opened = visit("/accounts/login/?next=/operate/", java_script_enabled=java_script)
    page = opened.page
    log_in(page, "olga")
    expect(page.get_by_role("heading", level=1)).to_have_text("Operate")
    if java_script:
        expect(page.get_by_text("No worker answers:")).to_be_visible()
        assert unfit(opened) == []
    else:
        page.get_by_role("link", name="Ask the broker and the workers").click()
        expect(page.get_by_text("No worker answers:")).to_be_visible()
        page.go_back()
    found = []

    def look(heading: str) -> None:
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)  # the page that a click led to
        if java_script:
            found.extend(problems(page))

    page.get_by_role("link", name="1 scoring, failed").click()
    expect(page.get_by_text(REASON)).to_be_visible()
    look("Scorings")
    page.get_by_role("link", name="Retry the 1 failed").click()
    look("Retry 1 scoring")
    confirm(page, "Retry")
    expect(page.get_by_text("Queued again: 1 of 1.")).to_be_visible()

    page.get_by_role("navigation", name="Operate").get_by_role("link", name="Metrics").click()
    page.get_by_role("link", name="Drift policy of Safety on the starter set").first.click()
    page.get_by_label("Mean shift").fill("0.02")
    page.get_by_label("Reason").fill("fewer alarms")
    look("Drift policy of Safety on the starter set")
    confirm(page, "Look at the change")
    expect(page.get_by_role("row", name="Mean shift 0.005 0.02")).to_be_visible()
    look("Change the drift policy of Safety on the starter set")
    confirm(page, "Set the policy")

    page.get_by_role("link", name="Pause the rescoring of Safety on the starter set").click()
    look("Pause the rescoring of Safety on the starter set")
    confirm(page, "Pause")
    expect(page.get_by_role("link", name="Resume the rescoring of Safety on the starter set")).to_be_visible()

    page.get_by_role("navigation", name="Operate").get_by_role("link", name="Models", exact=True).click()
    look("Models")
    page.get_by_label("Name, family or slug").fill(CAUSAL)
    page.get_by_role("main").get_by_role("button", name="Show").click()
    page.get_by_role("link", name=CAUSAL).click()
    look(CAUSAL)
    page.get_by_role("link", name="Hide").click()
    page.get_by_label("Public note").fill("Entered twice.")
    look(f"Hide: {CAUSAL}")
    confirm(page, "Hide")
    expect(page.get_by_text("Its page says: Entered twice.")).to_be_visible()
    page.goto(LanguageModel.objects.get(slug=CAUSAL).get_absolute_url())
    expect(page.get_by_text("Entered twice.")).to_be_visible()
    look(CAUSAL)

    page.goto("/operate/audit/")
    page.get_by_label("Who").fill("olga")
    page.get_by_role("main").get_by_role("button", name="Show").click()
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("hide model")
    expect(rows.nth(4)).to_contain_text("retry scoring")
    look("Audit trail")
    assert found == []
    assert opened.faults == []
