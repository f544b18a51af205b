"""Logging in by an account elsewhere: only where the board has a client, and never into somebody else's account."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.urls import reverse

from leaderboard.models import Invitation
from leaderboard.people.services.accounts import is_confirmed, may_submit
from leaderboard.people.services.invitations import invite
from tests.faults.worker import database_url
from tests.leaderboard.test_accounts import person, signed_in
from tests.loopback import QuietHandler, serving

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

LOG_IN = "/accounts/oidc/huggingface/login/"


@dataclass
class Provider:
    """What an OpenID provider on this machine says of whoever comes, and what it was sent for a token."""

    address: str = ""
    says: dict[str, object] = field(
        default_factory=lambda: {
            "sub": "42",
            "preferred_username": "ada",
            "email": "ada@example.org",
            "email_verified": True,
        }
    )
    asked: dict[str, list[str]] = field(default_factory=dict)


class _Handler(QuietHandler):
    stage: Provider

    def do_GET(self) -> None:  # noqa: N802 (the name the library asks for)
        at = self.stage.address
        configuration = {
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "userinfo_endpoint": f"{at}/userinfo",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }
        self._answer(self.stage.says if self.path == "/userinfo" else configuration)

    def do_POST(self) -> None:  # noqa: N802
        self.stage.asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._answer({"access_token": "of-this-login", "token_type": "bearer"})

    def _answer(self, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def offer(settings, address: str) -> None:
    server = {"server_url": address, "oauth_pkce_enabled": True}
    app = {"provider_id": "huggingface", "name": "Hugging Face", "client_id": "id", "secret": "s", "settings": server}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}


@pytest.fixture
def provider(settings) -> Iterator[Provider]:
    """The board has a client at this provider."""
    stage = Provider()
    with serving(_Handler, stage) as address:
        stage.address = address
        offer(settings, address)
        yield stage


def come_back(client, process: str = "login"):
    """Go to the provider and come back from it; the answer to that."""
    there = parse_qs(urlsplit(client.post(f"{LOG_IN}?process={process}").url).query)
    assert there["code_challenge_method"] == ["S256"]
    return client.get(f"{LOG_IN}callback/", {"code": "a code", "state": there["state"][0]})


def test_a_newcomer_is_signed_up_with_the_address_the_provider_has_confirmed(client, provider):
    assert "Continue with Hugging Face" in client.get(reverse("account_login")).content.decode()
    assert come_back(client).url == reverse("account")
    user = User.objects.get(username="ada")
    assert signed_in(client)
    assert may_submit(user)
    assert not user.has_usable_password()
    assert provider.asked["code_verifier"]
    assert client.get(reverse("socialaccount_connections")).status_code == 200
    client.logout()
    come_back(client)
    assert signed_in(client)
    assert User.objects.count() == 1


def test_an_address_the_provider_has_not_confirmed_is_confirmed_here_first(client, provider):
    provider.says["email_verified"] = False
    assert come_back(client).url == reverse("account_email_verification_sent")
    assert not signed_in(client)
    assert not is_confirmed(User.objects.get())


def test_nobody_gets_into_an_account_by_having_its_address_elsewhere(client, provider):
    person()
    answer = come_back(client)
    assert answer.url == reverse("account_email_verification_sent"), "as for an address without an account"
    assert not signed_in(client)
    assert not SocialAccount.objects.exists()


def test_a_taken_name_gives_another_one_and_an_account_can_be_connected_and_disconnected(client, provider):
    person()
    provider.says["email"] = "other@example.org"
    come_back(client)
    assert User.objects.exclude(username="ada").get().username.startswith("other")
    user = person("grace")
    SocialAccount.objects.all().delete()
    client.force_login(user)
    come_back(client, "connect")
    account = SocialAccount.objects.get(user=user)
    assert "Disconnect" in client.get(reverse("socialaccount_connections")).content.decode()
    client.post(reverse("socialaccount_connections"), {"account": account.pk})
    assert not SocialAccount.objects.exists()


def test_a_provider_without_a_name_or_address_leads_to_a_form(client, provider):
    provider.says = {"sub": "42"}
    assert come_back(client).url == reverse("socialaccount_signup")
    page = client.get(reverse("socialaccount_signup")).content.decode()
    assert "Hugging Face" in page
    client.post(reverse("socialaccount_signup"), {"username": "ada", "email": "ada@example.org"})
    assert not EmailAddress.objects.get().verified
    assert User.objects.get().groups.get().name == "submitter"


def test_on_a_board_by_invitation_this_way_in_needs_one_too(client, provider, settings):
    settings.BOARD_ACCESS = "invited"
    assert "by invitation" in come_back(client).content.decode()
    assert not User.objects.exists()
    _, link = invite("http://testserver")
    client.get(link.removeprefix("http://testserver"))
    come_back(client)
    assert Invitation.objects.get().used_by == User.objects.get()


def test_an_invitation_for_another_address_does_not_let_in_this_way(client, provider, settings):
    settings.BOARD_ACCESS = "invited"
    _, link = invite("http://testserver", email="eve@example.org")
    client.get(link.removeprefix("http://testserver"))
    answer = come_back(client)
    assert answer.status_code == 403
    assert "another e-mail address" in answer.content.decode()
    assert not User.objects.exists()
    assert not SocialAccount.objects.exists()


def test_a_provider_that_is_away_is_told_in_words(client, settings):
    offer(settings, "http://127.0.0.1:9")
    answer = client.post(f"{LOG_IN}?process=login")
    assert "did not say who you are" in answer.content.decode()
    assert answer.status_code == 502, "so that a probe does not take it for a page that works"


def test_an_answer_nobody_asked_for_is_refused(client, provider):
    answer = client.get(f"{LOG_IN}callback/", {"code": "a code", "state": "made up"})
    assert "did not say who you are" in answer.content.decode()
    assert not signed_in(client)


def test_without_a_client_there_is_no_button_and_no_way(client):
    assert "Continue with" not in client.get(reverse("account_login")).content.decode()
    for path in (LOG_IN, "/accounts/github/login/"):
        assert client.get(path).status_code == 404


PRINT = (
    "import django; django.setup(); from django.test import Client; "
    "page = Client(HTTP_HOST='localhost').get('/accounts/login/').content.decode(); page = ' '.join(page.split()); "
    "print([name for name in ('GitHub', 'Hugging Face') if f'Continue with {name}' in page])"
)


def started(**environment: str) -> subprocess.CompletedProcess[str]:
    """A process of this board whose environment has this."""
    variables = os.environ | {
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        **environment,
    }
    return subprocess.run(
        [sys.executable, "-c", PRINT], cwd=configured.BASE_DIR, env=variables, capture_output=True, text=True
    )


@pytest.mark.slow
def test_a_client_in_the_environment_brings_its_button():
    clients = {f"{name}_CLIENT_{part}": "x" for name in ("GITHUB", "HUGGINGFACE") for part in ("ID", "SECRET")}
    found = started(**clients)
    assert found.stdout.strip() == "['GitHub', 'Hugging Face']", found.stderr


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"GITHUB_CLIENT_ID": "id"}, "GITHUB_CLIENT_ID and GITHUB_CLIENT_SECRET: set both of them or neither"),
        ({"BOARD_ACCESS": "closed"}, "BOARD_ACCESS = 'closed': set it to open"),
        ({"EMAIL_URL": "pigeon://ada:secret@loft"}, "EMAIL_URL: set it to console://"),
        ({"SITE_URL": "board.example.org"}, "SITE_URL = 'board.example.org': set it with its scheme"),
    ],
    ids=["half-a-client", "access", "email", "site"],
)
def test_a_setting_that_cannot_be_stops_the_start_with_what_to_set(environment, message):
    found = started(**environment)
    assert found.returncode == 1
    assert message in found.stderr.splitlines()[-1]
    assert "secret@" not in found.stderr
