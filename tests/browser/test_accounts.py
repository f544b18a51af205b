"""A person and an account, in a real browser: from the form by way of the letter to a token, and out again."""

import re
from pathlib import Path

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core.cache import cache
from django.urls import reverse
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from leaderboard.models import ApiToken
from leaderboard.people.services.invitations import invite
from leaderboard.people.services.roles import set_role
from leaderboard.people.services.tokens import TokenRefused, make_token, owner_of
from leaderboard.services.outbox import send_due
from leaderboard.worker import SENDERS
from tests.browser.conftest import CHROMIUM, Visit
from tests.browser.looking import overflow, unfit, violations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

PASSWORD = "a long passphrase"
PAGE = "/rankings/?metric=safety-starter"
LOG_IN = "/accounts/login/"
ENTRANCES = (LOG_IN, "/accounts/signup/", "/accounts/password/reset/", "/accounts/confirm-email/")
OWN = ("/accounts/", "/accounts/tokens/", "/accounts/email/", "/accounts/password/change/", "/operate/invitations/")


@pytest.fixture(autouse=True)
def _no_attempts_yet(transactional_db: None) -> None:
    """Each test begins without attempts: all of them come from one address."""
    cache.clear()


@pytest.fixture
def letters(settings, tmp_path: Path, live_server: LiveServer) -> Path:
    """A folder with the letters that the board sends, one file each."""
    settings.SITE_URL = live_server.url
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = tmp_path / "letters"
    return settings.EMAIL_FILE_PATH


def link_in_the_last_letter(letters: Path) -> str:
    send_due(SENDERS)  # as beat does every two seconds
    newest = max(letters.iterdir(), key=lambda letter: letter.stat().st_mtime_ns)
    return re.search(r"http://\S+", newest.read_text())[0]


def person(name: str = "ada", role: str = "submitter") -> User:
    user = User.objects.create_user(name, f"{name}@example.org", PASSWORD)
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    set_role(user, role)
    return user


def log_in(page: Page, login: str = "ada") -> None:
    page.get_by_label("Name or e-mail address").fill(login)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.parametrize("java_script", [True, False], ids=["script", "no-script"])
def test_a_person_signs_up_confirms_logs_in_makes_a_token_revokes_it_and_logs_out(visit, letters, java_script):
    opened = visit(PAGE, java_script_enabled=java_script)
    page = opened.page
    page.get_by_role("link", name="Sign up").click()
    page.get_by_label("Name", exact=True).fill("ada")
    page.get_by_label("E-mail address").fill("ada@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Confirm your e-mail address")

    page.goto(link_in_the_last_letter(letters))
    expect(page.get_by_text("ada@example.org")).to_be_visible()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("ada@example.org is confirmed.")).to_be_visible()

    page.goto(PAGE)
    page.get_by_role("link", name="Log in").click()
    log_in(page)
    page.wait_for_url(f"**{PAGE}")
    menu = page.get_by_role("navigation", name="Account")
    menu.get_by_text("ada").click()
    expect(menu.get_by_role("link", name="Operate")).to_have_count(0)
    menu.get_by_role("link", name="API tokens").click()

    page.get_by_label("What it is for").fill("nightly submissions")
    page.get_by_label("Good for").select_option("A year")
    page.get_by_role("button", name="Make a token").click()
    secret = page.locator("code.secret").inner_text()
    assert owner_of(secret).username == "ada"
    page.goto("/accounts/tokens/")
    expect(page.get_by_text(secret)).to_have_count(0)
    row = page.get_by_role("row").filter(has_text="nightly submissions")
    expect(row).to_contain_text(secret[-4:])
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("The token is revoked")).to_be_visible()
    with pytest.raises(TokenRefused):
        owner_of(secret)

    page.get_by_role("navigation", name="Account").get_by_text("ada").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("link", name="Log in")).to_be_visible()
    page.goto("/accounts/tokens/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    assert opened.faults == []


def test_a_person_who_forgot_the_password_gets_in_by_a_letter(visit, letters):
    person()
    page = visit(LOG_IN).page
    page.get_by_role("link", name="Forgotten your password?").click()
    page.get_by_label("E-mail address").fill("ada@example.org")
    page.get_by_role("button", name="Send the link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Check your e-mail")
    page.goto(link_in_the_last_letter(letters))
    page.get_by_label("New password").fill("another long one")
    page.get_by_label("The same again").fill("another long one")
    page.get_by_role("button", name="Use this password").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Your password is changed")
    assert User.objects.get().check_password("another long one")


def test_mistakes_are_named_beside_their_fields_and_can_be_heard(visit):
    page = visit("/accounts/signup/", width=360).page
    page.get_by_label("Name", exact=True).fill("a b")
    page.get_by_label("E-mail address").fill("ada@example.org")
    page.get_by_label("Password").fill("short")
    page.get_by_role("button", name="Sign up").click()
    name = page.get_by_label("Name", exact=True)
    expect(name).to_have_accessible_description(re.compile("Use 2 to 40 Latin letters"))
    expect(page.get_by_label("Password")).to_have_accessible_description(re.compile("at least 10 characters"))
    assert violations(page) == []
    assert overflow(page) == 0


def test_a_page_of_ones_own_is_never_kept_for_the_next_reader(visit):
    person("grace-with-a-name-of-her-own")
    own = visit(f"{LOG_IN}?next=/").page
    log_in(own, "grace-with-a-name-of-her-own")
    own.wait_for_url("**/")
    expect(own.get_by_text("grace-with-a-name-of-her-own")).to_be_visible()
    stranger = visit("/rankings/").page
    expect(stranger.get_by_role("link", name="Log in")).to_be_visible()
    assert "grace" not in stranger.content()
    assert "csrfmiddlewaretoken" not in stranger.content()


def check(opened: Visit) -> None:
    assert opened.page.locator("h1").count() == 1
    assert unfit(opened) == []


def test_pages_of_accounts_are_accessible_and_fit_every_window(visit, live_server):
    opened = visit(LOG_IN)
    for path in ENTRANCES:
        opened.page.goto(path)
        check(opened)
    olga = person("olga", "operator")
    make_token(olga, "nightly submissions of the whole group")
    ApiToken.objects.update(last_used_at=olga.date_joined)
    invite(live_server.url, "somebody-with-a-long-name@an-institute.example.org", inviter=olga)
    opened.page.goto(LOG_IN)
    log_in(opened.page, "olga")
    opened.page.wait_for_url("**/accounts/")
    for path in OWN:
        opened.page.goto(path)
        check(opened)
    opened.page.get_by_role("navigation", name="Account").get_by_text("olga").click()
    menu = opened.page.get_by_role("navigation", name="Account")
    expect(menu.get_by_role("link", name="Operate")).to_be_visible()
    check(opened)
    for address, button in (("tokens", "Make a token"), ("invitations", "Invite")):
        opened.page.goto(reverse(address))
        if address == "tokens":
            opened.page.get_by_label("What it is for").fill("another")
        opened.page.get_by_role("button", name=button).click()
        expect(opened.page.get_by_role("button", name="Copy")).to_be_visible()
        assert overflow(opened.page) == 0
        assert violations(opened.page) == []
