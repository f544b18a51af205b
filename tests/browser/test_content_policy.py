"""The content security policy in a real browser: nothing of the site breaks it, and what is smuggled in is stopped.

Each page is opened while the policy is only reported, so that all its violations show. In production it is enforced, as
it is in every other test of a browser.
"""

from functools import partial

import pytest
from django.conf import settings as board_settings
from playwright.sync_api import Route

from tests.addresses import addresses
from tests.browser.conftest import CHROMIUM
from tests.browser.looking import drawn, explore
from tests.browser.test_accounts import log_in, person
from tests.leaderboard.conftest import CAUSAL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

WITH_CHARTS = (f"/models/{CAUSAL}/", "/agreement/")
RECORD = """
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => {
        const { violatedDirective, blockedURI, sourceFile, lineNumber } = event;
        window.violations.push(`${violatedDirective}: ${blockedURI} at ${sourceFile}:${lineNumber}`);
    });
"""
SMUGGLED = {
    "inline": "document.body.append(Object.assign(document.createElement('script'), {text: 'window.harmed = 1'}))",
    "attribute": "document.body.insertAdjacentHTML('beforeend', '<img src=x: onerror=\"window.harmed = 1\">')",
    "file": "document.body.append(Object.assign(document.createElement('script'), {src: '/static/copy.js'}))",
    "frame": "document.body.insertAdjacentHTML('beforeend', '<iframe src=\"/embed/\"></iframe>')",
    "base": "document.head.insertAdjacentHTML('beforeend', '<base href=\"https://example.org/\">')",
    "request": "fetch('https://example.org/').catch(() => {})",
}
NOTICED = "() => window.violations.length > 0"


def test_no_page_breaks_the_policy_while_it_is_only_reported(visit, settings):
    policy = settings.CONTENT_SECURITY_POLICY
    settings.CONTENT_SECURITY_POLICY, settings.CONTENT_SECURITY_POLICY_REPORT_ONLY = None, policy
    olga = person("olga", "operator")
    olga.is_superuser = True
    olga.save()
    page = visit("/accounts/login/").page
    log_in(page, "olga")
    page.wait_for_url("**/")
    page.context.add_init_script(RECORD)
    opened, violations = [], []
    for path in (*WITH_CHARTS, *addresses()):
        answer = page.request.get(path, max_redirects=0)
        if answer.status == 405 or not answer.headers.get("content-type", "").startswith(("text/html", "image/svg")):
            continue  # it is asked by POST alone, or no page
        page.goto(path, wait_until="load")
        if path in WITH_CHARTS:
            explore(drawn(page))
        opened.append(path)
        violations += [f"{path}: {violation}" for violation in page.evaluate("window.violations")]
    assert violations == []
    assert {"/admin/", "/api/", "/embed/", "/docs/", "/operate/", "/submit/hub/", "/"} <= set(opened)
    page.goto("/rankings/")
    page.evaluate(SMUGGLED["inline"])
    page.wait_for_function(NOTICED)
    assert page.evaluate("window.harmed") == 1, "it was reported, and not blocked"


@pytest.mark.parametrize("path", WITH_CHARTS)
def test_charts_are_drawn_and_saved_while_the_policy_is_enforced(visit, path):
    assert board_settings.CONTENT_SECURITY_POLICY
    opened = visit(path)
    explore(drawn(opened.page))
    with opened.page.expect_download() as download:
        opened.page.get_by_role("link", name="PNG", exact=True).first.click()
    assert download.value.suggested_filename.endswith(".png")
    assert opened.faults == []


@pytest.mark.parametrize("kind", SMUGGLED)
def test_what_is_smuggled_into_a_page_neither_runs_nor_leads_elsewhere(visit, kind):
    page = visit("/rankings/").page
    page.context.add_init_script(RECORD)
    page.reload()
    page.evaluate(SMUGGLED[kind])
    page.wait_for_function(NOTICED)
    assert page.evaluate("window.harmed") is None


def test_a_page_of_the_board_is_in_no_frame_but_the_one_that_is_made_for_it(visit, live_server):
    page = visit("/rankings/").page
    frame = "<!doctype html><title>Elsewhere</title><iframe src='{}'></iframe>"
    for path, shown in (("/about/", False), ("/embed/", True)):
        html = frame.format(live_server.url + path)
        page.unroute("**/elsewhere")
        page.route("**/elsewhere", partial(answer_with, html))
        page.goto("/elsewhere", wait_until="load")
        assert (page.frame_locator("iframe").locator("#main").count() == 1) == shown


def answer_with(html: str, route: Route) -> None:
    route.fulfill(body=html, content_type="text/html")
