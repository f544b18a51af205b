"""Accounts: signing up and logging in, what is told to whom, and how often one may try."""

import json
import re
from datetime import timedelta
from itertools import pairwise
from time import monotonic, sleep
from types import SimpleNamespace

import pytest
from allauth.account.models import EmailAddress
from allauth.core.internal import ratelimit
from django.contrib.auth.models import AnonymousUser, Group, User
from django.contrib.sessions.models import Session
from django.core import mail
from django.core.mail import EmailMessage
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from leaderboard import tasks
from leaderboard.models import AuditEvent, OutboxMessage
from leaderboard.models.clock import from_now
from leaderboard.people.services.accounts import is_confirmed, may_submit, submissions_are_moderated
from leaderboard.people.services.roles import NEWCOMER, ROLES, moderates, operates, role_of, seed_roles, set_role
from leaderboard.services.outbox import LETTERS, send_due
from leaderboard.worker import SENDERS
from scoring.refusals import Refused
from tests.passwords import QuickHasher

pytestmark = pytest.mark.django_db

PASSWORD = "a long passphrase"
ADA = {"username": "ada", "email": "ada@example.org", "password1": PASSWORD}


def person(name: str = "ada", role: str = "submitter", **fields) -> User:
    """Somebody with a confirmed address and a role."""
    user = User.objects.create_user(name, f"{name}@example.org", PASSWORD, **fields)
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    set_role(user, role)
    return user


def posted() -> list[EmailMessage]:
    """The letters sent so far, once beat has sent what waits."""
    send_due(SENDERS)
    return mail.outbox


def log_in(client: Client, login: str, password: str = PASSWORD, **fields):
    return client.post(reverse("account_login"), {"login": login, "password": password, **fields})


def sign_up(client: Client, **fields):
    return client.post(reverse("account_signup"), {**ADA, **fields})


def link_in(message) -> str:
    """The path of the first link in a letter."""
    return re.search(r"http://testserver(/\S+)", message.body)[1]


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


@pytest.mark.slow
def test_a_person_signs_up_confirms_logs_in_and_out(client):
    assert sign_up(client).url == reverse("account_email_verification_sent")
    user = User.objects.get(username="ada")
    assert role_of(user).name == NEWCOMER
    assert not is_confirmed(user)
    assert not may_submit(user)
    assert log_in(client, "ada").url == reverse("account_email_verification_sent")
    assert not signed_in(client)

    (letter,) = posted()
    assert letter.to == ["ada@example.org"]
    path = link_in(letter)
    assert "Confirm" in client.get(path).content.decode()
    assert not EmailAddress.objects.get(user=user).verified, "following a link changes nothing: scanners follow links"
    client.post(path)
    assert is_confirmed(user)
    assert may_submit(user)

    assert log_in(client, "ada").url == reverse("account")
    assert signed_in(client)
    assert client.post(reverse("account_logout")).url == reverse("rankings")
    assert not signed_in(client)
    log_in(client, "ADA@example.org")
    assert signed_in(client)


def test_a_link_of_the_outside_does_not_log_out(client):
    client.force_login(person())
    assert "Log out" in client.get(reverse("account_logout")).content.decode()
    assert signed_in(client)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get())
    assert strict.post(reverse("account_logout")).status_code == 403


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"username": "a b"}, "username", "Use 2 to 40 Latin letters"),
        ({"username": "x@example.org"}, "username", "Use 2 to 40 Latin letters"),
        ({"username": "аda"}, "username", "Use 2 to 40 Latin letters"),  # its first letter is Cyrillic
        ({"username": "GRACE"}, "username", "This name is taken"),
        ({"email": "nobody"}, "email", "valid email address"),
        ({"password1": "short"}, "password1", "at least 10 characters"),
        ({"password1": "password123"}, "password1", "too common"),
        ({"password1": "9182736450918273"}, "password1", "entirely numeric"),
        ({"password1": "ada@example.org"}, "password1", "too similar"),
        ({"password1": ""}, "password1", "required"),
    ],
)
def test_a_mistake_is_named_at_its_field(client, fields, field, message):
    person("grace")
    response = sign_up(client, **fields)
    html = response.content.decode()
    assert message in " ".join(response.context["form"].errors[field])
    assert f'id="id_{field}_error"' in html
    (tag,) = re.findall(rf'<input[^>]*name="{field}"[^>]*>', html)
    assert 'aria-invalid="true"' in tag
    assert re.search(rf'aria-describedby="[^"]*id_{field}_error"', tag)
    assert not User.objects.filter(username=fields.get("username", "ada")).exists()


def test_signing_up_with_an_address_that_has_an_account_looks_like_any_other_time():
    person("grace")
    pages = []
    for name, email in (("ada", "grace@example.org"), ("eve", "eve@example.org")):
        browser = Client()
        response = sign_up(browser, username=name, email=email)
        assert response.url == reverse("account_email_verification_sent")
        pages.append(browser.get(response.url).content.decode().replace(email, "EMAIL"))
    assert pages[0] == pages[1]
    assert not User.objects.filter(username="ada").exists()
    assert [letter.to for letter in posted()] == [["grace@example.org"], ["eve@example.org"]]
    assert "already" in posted()[0].body


def test_an_account_shows_its_own_address(client):
    for name in ("ada", "bob", "eve"):
        person(name)
    for name, others in (("ada", ("bob", "eve")), ("bob", ("ada", "eve")), ("eve", ("ada", "bob"))):
        client.force_login(User.objects.get(username=name))
        html = client.get("/accounts/").content.decode()
        assert f"{name}@example.org" in html
        assert not any(f"{other}@example.org" in html for other in others)


def test_a_wrong_password_and_an_unknown_name_or_address_are_told_alike(client):
    person()
    logins = ("ada", "nobody", "ada@example.org", "x@example.org")
    tried = [log_in(client, login, "not the passphrase") for login in logins]
    said = {response.context["form"].non_field_errors()[0] for response in tried}
    assert said == {"There is no account with this name or e-mail address and this password."}
    assert not signed_in(client)


def test_how_long_an_answer_takes_does_not_say_who_has_an_account(client, monkeypatch):
    """Hashing is what takes long: it is done as often for people who are known as for those who are not."""
    person()
    hashed = []
    encode = QuickHasher.encode

    def counted(hasher, password, salt, *rounds):
        hashed.append(password)
        return encode(hasher, password, salt, *rounds)

    def hashes_of(path: str, **fields) -> int:
        hashed.clear()
        Client().post(reverse(path), fields)
        return len(hashed)

    monkeypatch.setattr(QuickHasher, "encode", counted)
    for login in ("ada", "nobody", "ada@example.org", "x@example.org"):
        assert hashes_of("account_login", login=login, password="not the passphrase") == 1
    for email in ("ada@example.org", "x@example.org"):
        assert hashes_of("account_signup", **{**ADA, "username": "eve", "email": email}) == 1


def test_a_closed_account_is_told_so_only_with_its_password(client):
    person(is_active=False)
    wrong = log_in(client, "ada", "not the passphrase")
    assert "There is no account" in wrong.content.decode()
    log_in(client, "ada")
    assert not signed_in(client)


def test_few_letters_to_reset_a_password_are_sent_to_an_address_a_day(client, monkeypatch):
    person()
    for hour in range(12):
        clock = SimpleNamespace(time=lambda hour=hour: 1.7e9 + 3600.0 * hour, monotonic=monotonic, sleep=sleep)
        monkeypatch.setattr(ratelimit, "time", clock)
        client.post(reverse("account_reset_password"), {"email": "ada@example.org"})
    assert len(posted()) == 10


def test_expired_sessions_are_forgotten(client):
    client.force_login(person())
    assert Session.objects.count() == 1
    tasks.watch()
    assert Session.objects.count() == 1
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    tasks.watch()
    assert not Session.objects.exists()


def test_a_password_is_reset_by_mail_once_and_nobody_learns_who_has_an_account(client, settings):
    settings.SITE_URL = "http://testserver"
    person()
    address = reverse("account_reset_password")
    client.post(address, {"email": "first@example.org"})  # whatever is looked up once is known from here on
    posted().clear()
    answers, queries = [], []
    for email in ("ada@example.org", "x@example.org"):
        with CaptureQueriesContext(connection) as captured:
            answers.append(client.post(address, {"email": email}).url)
        queries.append([re.sub(r"'[^']*'|\d+", "?", query["sql"]) for query in captured])
    assert answers == [reverse("account_reset_password_done")] * 2
    assert mail.outbox == [], "no page waits for a mail server"
    assert queries[0] == queries[1], "what is done for somebody is done for nobody as well"
    assert len(posted()) == 2
    assert "No account has this address" in posted()[1].body
    form = client.get(link_in(posted()[0]), follow=True)
    where = form.request["PATH_INFO"]
    assert "like your name" in form.content.decode()
    weak = client.post(where, {"password1": "12345", "password2": "12345"})
    assert weak.context["form"].errors["password1"]
    client.post(where, {"password1": "another long one", "password2": "another long one"})
    log_in(client, "ada", "another long one")
    assert signed_in(client)
    again = Client().get(link_in(posted()[0]), follow=True)
    assert "has been used" in again.content.decode()


def test_changing_a_password_asks_for_the_old_one_and_logs_other_machines_out(client):
    user = person()
    elsewhere = Client()
    for one in (client, elsewhere):
        log_in(one, "ada")
    new = {"password1": "another long one", "password2": "another long one"}
    wrong = client.post(reverse("account_change_password"), {"oldpassword": "guess", **new})
    assert wrong.context["form"].errors["oldpassword"]
    client.post(reverse("account_change_password"), {"oldpassword": PASSWORD, **new})
    user.refresh_from_db()
    assert user.check_password("another long one")
    assert client.get(reverse("account")).status_code == 200
    assert elsewhere.get(reverse("account")).status_code == 302
    assert posted()[-1].subject == "Plumbline: your password was changed"


def test_another_address_takes_effect_when_it_is_confirmed(client):
    user = person()
    client.force_login(user)
    client.post(reverse("account_email"), {"email": "countess@example.org", "action_add": ""})
    assert is_confirmed(user)
    assert posted()[-1].to == ["countess@example.org"]
    assert User.objects.get().email == "ada@example.org"
    client.post(link_in(posted()[-1]))
    assert User.objects.get().email == "countess@example.org"
    assert EmailAddress.objects.get().email == "countess@example.org"


@pytest.mark.parametrize("evil", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"])
def test_nobody_is_sent_to_another_site(client, evil):
    person()
    assert log_in(client, "ada", next=evil).url == reverse("account")
    assert client.post(reverse("account_logout"), {"next": evil}).url == reverse("rankings")
    assert log_in(client, "ada", next="/history/").url == "/history/"


@pytest.mark.parametrize("login", ["ada", "ada@example.org"])
def test_an_account_is_locked_for_a_while_after_five_wrong_passwords_even_from_five_addresses(client, login):
    person()
    for attempt in range(5):
        assert "There is no account" in log_in(Client(REMOTE_ADDR=f"10.0.0.{attempt}"), login, "guess").content.decode()
    right = log_in(client, login)
    assert "Too many attempts" in right.content.decode()
    assert not signed_in(client)


@pytest.mark.slow
def test_an_address_that_guesses_at_many_accounts_is_stopped(client):
    said = [log_in(client, f"person{number}", "guess").content.decode() for number in range(11)]
    assert ["Too many" in page for page in said] == [False] * 10 + [True]
    person()
    elsewhere = Client(REMOTE_ADDR="10.0.0.1")
    log_in(elsewhere, "ada")
    assert signed_in(elsewhere)


@pytest.mark.slow
def test_many_requests_of_one_address_get_a_page_that_says_what_to_do(client):
    pages = [client.post(reverse("account_login"), {}) for _ in range(31)]
    assert [page.status_code for page in pages] == [200] * 30 + [429]
    assert "Wait a minute" in pages[-1].content.decode()
    assert client.get(reverse("account_login")).status_code == 200


def test_attempts_are_counted_where_every_process_of_the_board_counts(settings):
    assert settings.CACHES["default"]["BACKEND"].endswith("TableCache")


@pytest.mark.slow
def test_behind_a_proxy_attempts_are_counted_by_the_address_the_proxy_names(settings):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    person()
    for number in range(10):  # what a visitor sends stands before what the proxy adds
        log_in(Client(HTTP_X_FORWARDED_FOR=f"6.6.6.{number}, 10.9.8.7"), f"person{number}", "guess")
    assert "Too many" in log_in(Client(HTTP_X_FORWARDED_FOR="10.9.8.7"), "ada").content.decode()
    other = Client(HTTP_X_FORWARDED_FOR="10.9.8.6")
    log_in(other, "ada")
    assert signed_in(other)


def test_a_user_of_createsuperuser_logs_in_and_runs_the_board(client, monkeypatch):
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", interactive=False, username="root", email="", verbosity=0)
    assert log_in(client, "root", next=reverse("operate")).url == reverse("operate")
    assert client.get(reverse("operate")).status_code == 200
    assert client.get(reverse("account")).status_code == 200


def test_a_session_outlives_the_server_and_its_cookies_are_kept_from_scripts_and_other_sites(client, settings):
    person()
    client.get(reverse("account_login"))
    log_in(client, "ada")
    session, csrf = client.cookies["sessionid"], client.cookies["csrftoken"]
    for cookie in (session, csrf):
        assert cookie["httponly"]
        assert cookie["samesite"] == "Lax"
    assert session["max-age"] == 14 * 24 * 3600
    assert settings.SESSION_ENGINE == "django.contrib.sessions.backends.db"


def test_a_mail_server_that_is_away_delays_a_letter_and_loses_none(client, settings, caplog):
    sign_up(client)
    backend = settings.EMAIL_BACKEND
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    assert send_due(SENDERS) == 0
    settings.EMAIL_BACKEND = backend
    assert "could not be mailed: ConnectionRefusedError; see EMAIL_URL" in caplog.text
    assert "ada@example.org" not in caplog.text
    assert send_due(SENDERS) == 0, "not before the pause is over"
    OutboxMessage.objects.update(not_before=from_now(-1))
    (letter,) = posted()
    assert letter.to == ["ada@example.org"]
    assert not OutboxMessage.objects.exists(), "what went is not kept: its link lets one in"


def test_a_letter_that_no_mail_server_takes_is_given_up(client):
    sign_up(client)
    OutboxMessage.objects.update(attempts=LETTERS.most_attempts)
    assert posted() == []
    assert not OutboxMessage.objects.exists()


def test_roles_have_what_is_declared_and_each_has_all_of_the_one_before():
    for before, role in pairwise(ROLES):
        assert set(before.permissions) < set(role.permissions)
    for role in ROLES:
        user = person(f"a-{role.name}", role.name)
        assert user.get_all_permissions() == set(role.permissions)
        assert operates(user) == (role.name == "operator")
        assert may_submit(user) == (role.name != "viewer")


def test_a_role_is_set_at_the_terminal_and_recorded(capsys):
    user = person()
    call_command("set_role", "ada@example.org", "operator", "--json")
    assert json.loads(capsys.readouterr().out) == {"user": "ada", "role": "operator", "operates": True}
    assert role_of(User.objects.get()).name == "operator"
    assert list(user.groups.values_list("name", flat=True)) == ["operator"]
    event = AuditEvent.objects.filter(verb="set role").first()
    change = {"before": {"role": "submitter"}, "after": {"role": "operator"}}
    assert (event.subject, event.actor, event.detail) == ("user ada", None, change)


def test_roles_that_were_changed_in_the_admin_are_put_right_and_others_are_refused():
    user = person(role="moderator")
    Group.objects.get(name="moderator").permissions.clear()
    seed_roles()
    seed_roles()
    assert Group.objects.filter(name__in=[role.name for role in ROLES]).count() == 4
    user = User.objects.get(pk=user.pk)
    assert (moderates(user), operates(user), may_submit(user)) == (True, False, True)
    with pytest.raises(Refused, match="role = 'king': use one of viewer, submitter, moderator, operator"):
        set_role(user, "king")
    assert role_of(user).name == "moderator"
    assert role_of(User.objects.create_user("nobody")) is None


@pytest.mark.parametrize("name", ["moderator", "operator"])
def test_a_closed_account_decides_nothing_whatever_its_role(name):
    user = person("olga", name, is_active=False)
    staff = User(username="oleg", is_staff=True, is_active=False)
    assert [moderates(one) for one in (user, staff)] == [False, False]
    assert [operates(one) for one in (user, staff, AnonymousUser())] == [False, False, False]
    assert not may_submit(user)


def test_who_runs_the_terminal_vouches_for_staff_and_nobody_for_an_unconfirmed_address():
    user, staff = User.objects.create_user("ada"), User.objects.create_user("olga", is_staff=True)
    EmailAddress.objects.create(user=user, email="ada@example.org", verified=False)
    EmailAddress.objects.create(user=staff, email="olga@example.org", verified=False)
    assert (is_confirmed(user), is_confirmed(staff)) == (False, True)
    EmailAddress.objects.filter(user=user).update(verified=True)
    assert is_confirmed(user)


@pytest.mark.parametrize(("access", "moderated"), [("open", False), ("invited", False), ("moderated", True)])
def test_one_function_tells_whether_submissions_wait_for_a_moderator(settings, access, moderated):
    settings.BOARD_ACCESS = access
    assert submissions_are_moderated() is moderated


PAGES = {
    # address: what a stranger, a submitter, an operator by role and a superuser get
    "account_login": (200, 302, 302, 302),
    "account_signup": (200, 302, 302, 302),
    "account_reset_password": (200, 200, 200, 200),
    "account": (302, 200, 200, 200),
    "tokens": (302, 200, 200, 200),
    "account_email": (302, 200, 200, 200),
    "account_change_password": (302, 200, 200, 200),
    "socialaccount_connections": (302, 200, 200, 200),
    "operate": (302, 403, 200, 200),
    "invitations": (302, 403, 200, 200),
}


@pytest.mark.parametrize("name", PAGES)
def test_who_may_see_what(name):
    people = [None, person("grace"), person("olga", "operator"), User.objects.create_superuser("root", "", PASSWORD)]
    for user, expected in zip(people, PAGES[name], strict=True):
        client = Client()
        if user:
            client.force_login(user)
        assert client.get(reverse(name)).status_code == expected, user


@pytest.mark.parametrize(
    "name", ["tokens", "invitations", "account_email", "account_change_password", "account_logout"]
)
def test_a_forged_form_is_refused_everywhere(name):
    client = Client(enforce_csrf_checks=True)
    client.force_login(person(role="operator"))
    assert client.post(reverse(name), {"name": "forged", "days": 30}).status_code == 403


@pytest.mark.slow
def test_only_who_is_signed_in_has_a_menu_and_a_form_in_the_header(client, board):
    anonymous = client.get("/rankings/").content.decode()
    assert 'href="/accounts/login/?next=%2Frankings%2F"' in anonymous
    assert "csrfmiddlewaretoken" not in anonymous
    client.force_login(person("grace"))
    own = client.get("/rankings/").content.decode()
    assert "grace" in own
    assert "csrfmiddlewaretoken" in own
    assert "/operate/" not in own
    client.force_login(person("olga", "operator"))
    assert "/operate/" in client.get("/rankings/").content.decode()
