"""Sending outputs of a closed model, in a real browser: from a mistake by way of the template to a good file."""

import json
import re

import pytest
from django.core.cache import cache
from playwright.sync_api import expect

from leaderboard import tasks
from leaderboard.models import LanguageModel, Reading, Submission
from leaderboard.submissions.services.templates import template_of
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import unfit
from tests.browser.test_accounts import log_in, person
from tests.leaderboard import living
from tests.scoring.contributed.files import json_lines

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]


@pytest.fixture(autouse=True)
def _no_attempts_yet(transactional_db: None) -> None:
    cache.clear()


def test_a_person_is_told_what_is_wrong_at_the_field_then_in_the_file_and_then_is_ranked(visit, board):
    person()
    opened = visit("/submit/outputs/")
    page = opened.page
    log_in(page)
    page.wait_for_url("**/submit/outputs/")

    rows = [
        json.loads(line) | {"token_log_likelihoods": [-1.5, -len(line) / 50]}
        for line in template_of(board.protocol, "jsonl")
    ]
    with page.expect_download() as download:
        page.get_by_role("group", name="Log-likelihoods").get_by_role("link", name="JSON lines").click()
    assert download.value.suggested_filename == "safety-starter-template.jsonl"
    assert len(download.value.path().read_text().splitlines()) == len(rows)

    def choose(content: bytes, name: str = "outputs.jsonl") -> None:
        page.get_by_label("File").set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})

    page.get_by_label("Safety on the starter set").check()
    page.get_by_label("Name of the model").fill("Closed 4")
    page.get_by_label("Which version of it").fill("2026-11-01")
    choose(json_lines(rows), "outputs.txt")
    page.get_by_role("button", name="Send the outputs").click()
    expect(page.get_by_label("File")).to_have_accessible_description(re.compile("ends in none of"))
    expect(page.get_by_label("Safety on the starter set")).to_be_checked()
    assert [fault for fault in unfit(opened) if "400" not in fault] == []

    choose(json_lines([*rows[1:], {**rows[1], "id": "foreign"}]))
    page.get_by_role("button", name="Send the outputs").click()
    page.wait_for_url("**/submissions/*/")
    tasks.read_submission(Reading.objects.get().pk)  # and the page makes itself anew
    row = page.get_by_role("row").filter(has_text="id or prompt of another set")
    expect(row).to_contain_text(f"line {len(rows)}")
    expect(row).to_contain_text("use the ids of the template")
    assert [fault for fault in unfit(opened) if "400" not in fault] == []

    page.goto("/submit/outputs/")
    page.get_by_label("Safety on the starter set").check()
    page.get_by_label("Name of the model").fill("Closed 4")
    page.get_by_label("Which version of it").fill("2026-11-01")
    choose(json_lines(rows))
    page.get_by_role("button", name="Send the outputs").click()
    page.wait_for_url("**/submissions/*/")
    tasks.read_submission(Reading.objects.latest("pk").pk)
    living.drain()
    expect(page.locator(".state")).to_contain_text("Ranked")  # the page is still from now on
    assert Submission.objects.latest("pk").model == LanguageModel.objects.get(source="uploaded")
    page.goto("/rankings/?metric=safety-starter")
    ranked = page.get_by_role("row").filter(has_text="Closed 4")
    ranked.get_by_role("link", name="uploaded outputs").click()
    expect(page.get_by_role("heading", name="Made elsewhere")).to_be_in_viewport()
    assert [fault for fault in opened.faults if "400" not in fault] == []
