"""A person with a browser on a board that was just put into service: signs up, submits, follows, finds the ranks."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, expect, sync_playwright

from tests.deployment.machines import Machine, find_chromium, wait_for

SITE = "https://localhost"
METRIC, TITLE = "safety-starter", "Safety on the starter set"
PASSWORD = "a long passphrase"
MODEL = "Closed 4"
CAGED = ("files-worker", "gpu-worker")  # which read or run what strangers send
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PATIENCE = 60_000  # milliseconds for a page
WORK = 900_000  # milliseconds until a submission is ranked, while the board measures its own models


@contextmanager
def browser_page(machine: Machine) -> Iterator[Page]:
    """A page of a browser whose network is the machine's, so that https://localhost is the board's proxy there."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        start = Path(folder) / "chromium"
        start.write_text(f'#!/bin/sh\nexec {" ".join(machine.enter_network())} {find_chromium()} "$@"\n')
        start.chmod(0o755)
        browser = playwright.chromium.launch(executable_path=str(start), args=ARGUMENTS)
        # The certificate is signed by the proxy's own authority, as the document says of localhost.
        page = browser.new_context(base_url=SITE, ignore_https_errors=True).new_page()
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        yield page
        browser.close()


def sign_up(page: Page, read_letters: Callable[[], str], name: str = "ada") -> None:
    """Sign up, open the link of the letter, confirm, and log in."""
    page.goto("/accounts/signup/")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("E-mail address").fill(f"{name}@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Confirm your e-mail address")
    address = rf"{SITE}/accounts/confirm-email/\S+"
    link = wait_for(lambda: re.search(address, read_letters()), 60, "the letter that confirms the address")
    page.goto(link[0])
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text(f"{name}@example.org is confirmed.")).to_be_visible()
    log_in(page, name, PASSWORD)


def log_in(page: Page, name: str, password: str) -> None:
    page.goto("/accounts/login/?next=/submit/outputs/")
    page.get_by_label("Name or e-mail address").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/submit/outputs/")


def submit(page: Page) -> str:
    """Fill the board's template with likelihoods of a model nobody has, and send it; the submission's address."""
    with page.expect_download() as download:
        page.get_by_role("group", name="Log-likelihoods").get_by_role("link", name="JSON lines").first.click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) | {"token_log_likelihoods": [-1.5, -len(line) / 50]} for line in lines]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    page.get_by_label(TITLE).check()
    page.get_by_label("Name of the model").fill(MODEL)
    page.get_by_label("Which version of it").fill("2026-11-01")
    page.get_by_label("File").set_input_files(
        {"name": "outputs.jsonl", "mimeType": "application/jsonl", "buffer": content}
    )
    page.get_by_role("button", name="Send the outputs").click()
    page.wait_for_url("**/submissions/*/")
    return page.url


def follow(page: Page, address: str) -> None:
    """Stay on the submission's page until it says that the model is ranked, then find it in the ranking."""
    page.goto(address)
    expect(page.locator(".state")).to_contain_text("Ranked", timeout=WORK)
    find_in_ranking(page)


def find_in_ranking(page: Page, version: int | None = None) -> None:
    """See the model in the ranking, of this version of the metric where one is named."""
    page.goto(f"/rankings/?metric={METRIC}" + (f"&version={version}" if version else ""))
    expect(page.get_by_role("row").filter(has_text=MODEL).first).to_be_visible()


def look_without_rights(page: Page) -> None:
    """The figures for machines are not for visitors who come through the proxy."""
    answer = page.goto("/metrics")
    if answer is None or answer.status not in (401, 403, 404):
        raise AssertionError(f"/metrics through the proxy: {answer and answer.status}; it should be closed")


def count_protections(page: Page) -> str:
    """As an operator: how many protections of cages hold, by what /operate/workers/ says of each host that needs them.

    Raises AssertionError where one is missing, or a worker that needs cages says nothing of them.
    """
    page.goto("/operate/workers/")
    expect(page.locator("ul.protections")).to_have_count(len(CAGED))
    lines = page.locator("ul.protections li").all_inner_texts()
    gaps = sorted({line for line in lines if line.startswith("Missing")})
    if gaps:
        raise AssertionError(f"/operate/workers/ names protections of cages that are missing: {'; '.join(gaps)}")
    count = sum(line.startswith("Holds") for line in lines)
    if not count:
        raise AssertionError("/operate/workers/ names no protection of cages that holds")
    return f"{count} on {len(CAGED)} workers"
