"""From signing up to a place in the ranking: a real browser, a real worker, and a hub of this machine."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from leaderboard.celery import app
from leaderboard.models import ControlCheck, ControlSet, Metric, MetricVersion, Standing, Submission
from leaderboard.services.openings import ensure_control_set
from scoring.metrics import instruments
from tests.browser.conftest import CHROMIUM
from tests.browser.submitting import look_up, send, sign_up
from tests.browser.test_accounts import _no_attempts_yet, letters
from tests.browser.test_submit import ID, OTHER, TITLE, hub
from tests.faults.worker import wait_until, worker
from tests.leaderboard.conftest import CAUSAL, MASKED

__all__ = ["_no_attempts_yet", "hub", "letters"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.faults,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

WATCH = """addEventListener("DOMContentLoaded", () => {
  const look = () => seen(document.querySelector("main").innerText);
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
  look();
})"""
PATIENCE = 600_000  # milliseconds; six slices, each in a cage of its own, on a busy machine


def made_token(page: Page) -> str:
    """A new API token of whoever is logged in."""
    page.goto("/accounts/tokens/")
    page.get_by_label("What it is for").fill("submissions from a script")
    page.get_by_role("button", name="Make a token").click()
    return page.locator("code.secret").inner_text()


def called(address: str, token: str, body: dict[str, object] | None = None) -> dict:
    """What the API answers to a GET, or to a POST of `body`."""
    method = "GET" if body is None else "POST"
    answer = httpx.request(method, address, json=body, headers={"Authorization": f"Bearer {token}"})
    return answer.raise_for_status().json()


@pytest.fixture
def watched(board: Metric, monkeypatch: pytest.MonkeyPatch) -> MetricVersion:
    """The version of safety, with the control set that a worker makes; the one of the tests is of fewer models."""
    version = board.current_version()
    ControlCheck.objects.filter(metric=board).delete()
    ControlSet.objects.filter(metric_version=version).delete()
    monkeypatch.setattr(instruments, "WATCHED_MODELS", (CAUSAL, MASKED))
    ensure_control_set(version)
    return version


def test_a_person_watches_a_submission_become_ranked_and_a_program_does_the_same(
    visit, letters, hub, watched, live_server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(app, "send_task")  # the board has none, as most tests with it have no worker
    app.control.purge()
    page = visit("/rankings/").page
    sign_up(page, letters)
    look_up(page, ID)
    submission = send(page, TITLE)
    expect(page.get_by_text("Waiting for its files to be fetched from the hub").first).to_be_visible()

    seen: list[str] = []
    page.expose_function("seen", lambda text: seen.append(text))
    page.add_init_script(WATCH)
    page.reload()
    # Slices of few texts, for the miniatures are quick: many turns, and progress after each.
    slices = {"SHARD_TEXTS": "10", "SLICE_SECONDS": "0.001", "LEASE_SECONDS": "60"}
    written = tmp_path / "written"
    with worker(HF_ENDPOINT=hub.endpoint, HF_HOME=str(tmp_path / "hub"), EMAIL_URL=f"file:///{written}", **slices):
        expect(page.locator(".state")).to_contain_text("Ranked", timeout=PATIENCE)
        progress = [int(done) for text in seen for done in re.findall(r"(\d+) of 144, \d+%", text)]
        assert len(set(progress)) > 1, "numbers of texts that the page showed, without being asked"
        page.get_by_role("link", name=re.compile(r"^\d of \d causal models$")).click()
        expect(page.get_by_role("table").get_by_role("link", name=ID)).to_be_visible()
        placed = Standing.objects.filter(model=submission.model, slice="average", measure="likelihood_auc")
        assert set(placed.values_list("metric_version", flat=True)) == {watched.pk}, "nothing drifted"

        token = made_token(page)
        api = f"{live_server.url}/api/v1/submissions"
        sent = called(api, token, {"hub_id": OTHER, "metrics": ["safety-starter"]})
        wait_until(lambda: Submission.objects.get(pk=sent["id"]).state == Submission.State.RANKED)
        assert called(f"{api}/{sent['id']}", token)["state"] == "ranked"
        wait_until(lambda: sum("ranked" in letter.read_text() for letter in written.iterdir()) == 2)
    page.goto("/rankings/?metric=safety-starter")
    expect(page.get_by_role("table").get_by_role("link", name=OTHER)).to_be_visible()
