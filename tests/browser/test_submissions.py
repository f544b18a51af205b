"""Following a submission in a real browser: its page moves by itself, and what one may do is asked once."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import BrowserContext, expect

from leaderboard.models import LanguageModel, Metric, Run, Scoring, Submission, SubmissionLine
from leaderboard.submissions.services import lifecycle
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import unfit
from tests.leaderboard.submitting import person, sent

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]


def enter(context: BrowserContext, user, base_url: str) -> None:
    """Be logged in as somebody, without the form."""
    client = Client()
    client.force_login(user)
    context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": base_url}])


def under_way(user, board: Metric) -> tuple[Submission, Run]:
    """A submission of a quarter of whose texts the outputs are collected."""
    submission = sent(user, board.slug, name="A model", state="accepted")
    model = LanguageModel.objects.create(
        slug="sent", name="A model", kind="causal", source="hub", location="an-institute/a-model", revision="4f" * 20
    )
    version = board.current_version()
    run = Run.objects.create(model=model, protocol=board.protocol, requester=user)
    Run.objects.filter(pk=run.pk).update(
        state="running",
        lease=uuid4(),
        lease_expires_at=timezone.now() + timedelta(hours=1),
        done=100,
        total=400,
        seconds=10,
    )
    Scoring.objects.create(run=run, model=model, metric_version=version)
    Submission.objects.filter(pk=submission.pk).update(model=model)
    return submission, run


def test_a_submission_is_followed_corrected_moderated_and_withdrawn(visit, board, live_server, settings):
    settings.BOARD_ACCESS = "moderated"
    ada, olga = person("ada"), person("olga", "operator")
    submission, run = under_way(ada, board)
    opened = visit("/about/")
    page = opened.page
    enter(page.context, ada, live_server.url)

    # The page moves while the work does, and is made anew when the state changes.
    page.goto(submission.get_absolute_url())
    expect(page.get_by_text("100 of 400, 25%")).to_be_visible()
    assert unfit(opened) == []
    Run.objects.filter(pk=run.pk).update(done=300)
    SubmissionLine.objects.create(submission=submission, text="75% is collected.")
    expect(page.get_by_text("300 of 400, 75%")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="75% is collected.")).to_be_visible()
    with transaction.atomic():  # one change of state: the page is made anew once
        Run.objects.filter(pk=run.pk).update(
            state="failed",
            lease=None,
            lease_expires_at=None,
            fault="ModelRefused",
            reason="it holds pickles at /srv/x/y",
        )
        lifecycle.settle()
    expect(page.get_by_role("heading", name="Safety on the starter set: why it failed")).to_be_visible()
    page.get_by_text("The technical reason").click()
    expect(page.get_by_text("it holds pickles at …")).to_be_visible()
    assert page.locator("[hx-get]").count() == 0
    page.set_viewport_size({"width": 1440, "height": 900})

    # What one may do is asked once.
    page.get_by_role("link", name="Retry…").click()
    page.get_by_role("link", name="Back").click()
    page.get_by_role("link", name="Withdraw…").click()
    page.get_by_label("Why").select_option("It was submitted by mistake.")
    page.get_by_role("button", name="Withdraw it").click()
    expect(page.get_by_text("It is withdrawn, and its model has left the rankings.")).to_be_visible()
    assert LanguageModel.objects.get(slug="sent").access == "withdrawn"

    # A moderator asks for changes, its submitter makes them.
    waiting = sent(ada, board.slug, name="Another model", state="moderated")
    page.goto(reverse("submissions"))
    expect(page.get_by_role("link", name="Waiting for a moderator 1")).to_be_visible()
    assert unfit(opened) == []
    enter(page.context, olga, live_server.url)
    page.goto(reverse("moderation"))
    expect(page.get_by_role("heading", name="Another model")).to_be_visible()
    assert unfit(opened) == []
    page.get_by_role("link", name="Ask for changes…").click()
    page.get_by_label("What to change").fill("Name its licence.")
    page.get_by_role("button", name="Ask for changes").click()
    expect(page.get_by_text("Nothing waits for a moderator.")).to_be_visible()
    enter(page.context, ada, live_server.url)
    page.goto(waiting.get_absolute_url())
    expect(page.get_by_text("Name its licence.")).to_be_visible()
    page.get_by_role("link", name="Change it and send it again").click()
    page.get_by_label("Licence").fill("cc-by-4.0")
    assert unfit(opened) == []
    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_text("It was sent again: a moderator will look at it.")).to_be_visible()
    waiting.refresh_from_db()
    assert (waiting.state, waiting.payload["licence"]) == ("moderated", "cc-by-4.0")
    assert opened.faults == []
