"""A served board and a browser to read it with."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from leaderboard.celery import app
from leaderboard.models import Metric
from tests.leaderboard.conftest import (
    CAUSAL,
    OTHER_CAUSAL,
    _quick_control_sets,
    _static_files,
    build_board,
    finish,
    keep_quickly,
    kept_boards,
)
from tests.leaderboard.continuations import import_sample, of_few
from tests.rows import Board, load_board, recall_boards

__all__ = ["_quick_control_sets", "_static_files", "kept_boards"]

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")  # the shell takes half the time
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# A test acts as soon as a page has an element, which may be before its scripts listen: Playwright waits with what is
# inside of something disabled.
DISABLE_UNTIL_LOADED = """
const disable = () => document.documentElement?.setAttribute("aria-disabled", "true");
const observer = new MutationObserver(disable);
disable();
observer.observe(document, { childList: true });
addEventListener("load", () => {
  observer.disconnect();
  document.documentElement.removeAttribute("aria-disabled");
});
"""
PATIENCE = 60_000  # milliseconds; a busy machine is slow, a wrong page never gets there
expect.set_options(timeout=PATIENCE)


@dataclass
class Visit:
    """A page open in the browser, and what went wrong on it so far."""

    page: Page
    requests: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        def on_console(message) -> None:
            if message.type in ("error", "warning"):
                self.faults.append(f"console: {message.text}")

        def on_response(response) -> None:
            if response.status >= 400:
                self.faults.append(f"{response.status}: {response.url}")

        def on_failure(request) -> None:
            if request.failure != "net::ERR_ABORTED":  # what a page was still loading as its reader went on
                self.faults.append(f"{request.failure}: {request.url}")

        self.page.on("console", on_console)
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("requestfailed", on_failure)
        self.page.on("response", on_response)


@pytest.fixture(scope="session")
def board_rows(
    django_db_setup: None,
    django_db_blocker,
    _static_files: None,
    kept_boards: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Board:
    """The rows of a measured board, computed once, because every test with a server empties the database."""
    folder = tmp_path_factory.mktemp("board")

    def build() -> None:
        models = build_board()
        import_sample(folder)
        for name in (CAUSAL, OTHER_CAUSAL):
            finish(models[name], of_few("toxicity-profanity"))

    with django_db_blocker.unblock():
        return recall_boards(kept_boards, "browser", lambda: [keep_quickly(build)])[0]


@pytest.fixture
def board(board_rows: Board, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Metric:
    """Two causal models and a masked one measured on three demographics, published figures, and no worker.

    Of the causal models the toxicity of a few continuations is measured too.
    """
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    load_board(board_rows)
    return Metric.objects.get(slug="safety-starter")


@pytest.fixture(scope="session")
def live_server(_static_files: None) -> Iterator[LiveServer]:
    """The site, with its static files served as in production: by WhiteNoise, under the names with hashes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.test.testcases._StaticFilesHandler", lambda application: application)
        server = LiveServer("127.0.0.1")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a module; it is gone before other tests run, and with it its event loop."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


def open_context(browser: Browser, **options: object) -> BrowserContext:
    """A context in which pages can be acted on once they have loaded, as their readers do."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    if options.get("java_script_enabled", True):
        context.add_init_script(DISABLE_UNTIL_LOADED)
    return context


@pytest.fixture
def visit(browser: Browser, live_server: LiveServer, board: Metric) -> Iterator[Callable[..., Visit]]:
    """Open a path of the site in a context of its own: `visit("/rankings/", width=360, color_scheme="dark")`."""
    contexts = []

    def open_page(path: str, width: int = 1440, **options: object) -> Visit:
        context = open_context(
            browser,
            base_url=live_server.url,
            viewport={"width": width, "height": 900},
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        opened = Visit(context.new_page())
        opened.page.goto(path, wait_until="load")
        return opened

    yield open_page
    for context in contexts:
        context.close()
