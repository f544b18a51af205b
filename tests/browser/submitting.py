"""What a person does to submit a hub model, step by step, in a browser."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from leaderboard.models import Submission
from tests.browser.test_accounts import PASSWORD, link_in_the_last_letter, log_in


def sign_up(page: Page, letters: Path, name: str = "ada") -> None:
    """Sign up, confirm the address by the letter, and log in."""
    page.get_by_role("navigation", name="Account").get_by_role("link", name="Sign up").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("E-mail address").fill(f"{name}@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Confirm your e-mail address")
    page.goto(link_in_the_last_letter(letters))
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text(f"{name}@example.org is confirmed.")).to_be_visible()
    page.goto("/accounts/login/?next=/submit/")
    log_in(page, name)
    expect(page.get_by_role("heading", level=1)).to_have_text("Submit a model")


def look_up(page: Page, hub_id: str, revision: str = "") -> None:
    """From any page to what the hub has."""
    page.get_by_role("link", name="Submit a model").first.click()
    page.get_by_role("link", name="Submit a hub model").click()
    page.get_by_label("Model on the hub").fill(hub_id)
    page.get_by_label("Revision").fill(revision)
    page.get_by_role("button", name="Look it up").click()


def send(page: Page, *metrics: str) -> Submission:
    """Rank what was found under the metrics of these titles alone; returns the submission, whose page is open then."""
    for box in page.get_by_role("group", name="Rank it under").get_by_role("checkbox", disabled=False).all():
        box.uncheck()
    for title in metrics:
        page.get_by_role("checkbox", name=title, exact=True).check()
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/submissions/*/")
    return Submission.objects.get(pk=int(re.search(r"/submissions/(\d+)/", page.url)[1]))
