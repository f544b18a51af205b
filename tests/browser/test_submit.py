"""A person submits a model of the hub, in a real browser: from signing up to its place in the queue."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from playwright.sync_api import expect

from leaderboard.models import Submission
from leaderboard.services import collect, score
from scoring.language_models import BUNDLED
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import unfit
from tests.browser.submitting import look_up, send, sign_up
from tests.browser.test_accounts import _no_attempts_yet, letters
from tests.chatting import chat_model
from tests.leaderboard.conftest import CAUSAL, MASKED
from tests.standin_hub import StandInHub

__all__ = ["_no_attempts_yet", "letters"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

ID, OTHER, GATED = "someone/a-small-model-with-a-rather-long-name-that-wraps", "someone/masked", "someone/gated"
TUNED = "someone/tuned"
TITLE = "Safety on the starter set"


@pytest.fixture
def hub(settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInHub]:
    """A hub with bundled models, which the board asks."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with StandInHub() as running:
        settings.HUB_ENDPOINT, settings.HUB_TOKEN = running.endpoint, None
        running.add(ID, BUNDLED / CAUSAL)
        running.add(OTHER, BUNDLED / MASKED)
        running.add(GATED, BUNDLED / CAUSAL, gated=True)
        running.add(TUNED, chat_model(tmp_path / "tuned"))
        yield running


def test_a_person_signs_up_submits_a_hub_model_and_it_is_ranked(visit, letters, hub, browser, live_server):
    opened = visit("/submit/")
    page = opened.page
    assert unfit(opened) == []
    page.set_viewport_size({"width": 1440, "height": 900})
    sign_up(page, letters)

    # A mistake is said as soon as the field is left, and stands beside it when the form is sent.
    page.get_by_role("link", name="Submit a hub model").click()
    page.get_by_label("Model on the hub").fill(GATED)
    page.get_by_label("Revision").focus()
    expect(page.get_by_role("status").filter(has_text="is gated")).to_be_visible()
    page.get_by_label("Model on the hub").fill(ID)
    page.get_by_label("Revision").focus()
    expect(page.get_by_role("status").filter(has_text="Found: GPT-2, causal")).to_be_visible()
    assert not Submission.objects.exists()

    page.get_by_role("button", name="Look it up").click()
    expect(page.get_by_text(hub.repositories[ID].revisions["main"])).to_be_visible()
    expect(page.get_by_role("checkbox", name=TITLE, exact=True)).to_be_checked()
    page.get_by_text("metrics that cannot be chosen, and why").click()
    expect(page.get_by_role("checkbox", name="Safety on ToxiGen", exact=True)).to_be_disabled()
    assert unfit(opened) == []
    page.get_by_label("Notes").fill("Trained on letters.")
    submission = send(page, TITLE)
    assert submission.model.notes == "Trained on letters."
    assert opened.faults == []

    # A model with a chat template may be asked in two ways, in the precision of one's choice.
    look_up(page, TUNED)
    raw_text, chat = (page.get_by_role("group", name="Ask it as").get_by_label(name) for name in ("Raw text", "Chat"))
    expect(raw_text).to_be_checked()
    expect(page.get_by_role("radio", name="As each protocol says")).to_be_checked()
    page.get_by_role("radio", name="bfloat16").check()
    raw_text.uncheck()
    chat.check()
    assert unfit(opened) == []
    tuned = send(page, TITLE).model
    assert (tuned.interface, tuned.precision) == ("chat", "bfloat16")
    assert opened.faults == []

    # Without a script, and with a mistake on the way.
    plain = browser.new_context(
        base_url=live_server.url, java_script_enabled=False, storage_state=page.context.storage_state()
    )
    other = plain.new_page()
    other.goto("/rankings/")
    look_up(other, GATED)
    field = other.get_by_label("Model on the hub")
    expect(field).to_have_accessible_description(re.compile("is gated: .* make it public, or ask its operators"))
    look_up(other, OTHER)
    assert send(other, TITLE).model.kind == "masked"
    plain.close()

    # What the workers would do; the page of the submission would make itself anew as it is left.
    page.goto("/about/")
    scoring = submission.scorings.get()
    collect.collect(scoring.run)
    scoring.refresh_from_db()
    score.score(scoring)
    page.goto("/rankings/?metric=safety-starter")
    expect(page.get_by_role("link", name=ID)).to_be_visible()
