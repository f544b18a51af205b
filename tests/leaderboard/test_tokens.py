"""API tokens: shown once, known by their hash, and worth nothing once revoked or expired."""

import logging
import re
from datetime import UTC, datetime, timedelta

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import ApiToken, AuditEvent
from leaderboard.people.authentication import user_of
from leaderboard.people.services.credentials import digest
from leaderboard.people.services.roles import set_role
from leaderboard.people.services.tokens import MOST_TOKENS, TokenRefused, make_token, note_use, owner_of, revoke_token
from scoring.refusals import Refused
from tests.leaderboard.test_accounts import link_in, person, posted

pytestmark = pytest.mark.django_db

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def asking(header: str | None):
    """A request with that Authorization header."""
    return RequestFactory().get("/api/", headers={"Authorization": header} if header is not None else None)


def test_a_program_is_known_by_its_owners_token():
    user = person()
    _, secret = make_token(user, "nightly")
    assert user_of(asking(f"Bearer {secret}")) == user
    assert user_of(asking(f"bearer  {secret} ")) == user
    assert user_of(asking(None)) is None


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic YWRhOnB3", "plumb_0", "Token plumb_0"])
def test_a_header_of_another_shape_is_refused_with_the_right_one(header):
    with pytest.raises(TokenRefused, match="Authorization: Bearer plumb_"):
        user_of(asking(header))


def test_of_the_secret_only_a_hash_and_four_characters_are_kept(caplog):
    caplog.set_level(logging.DEBUG)
    token, secret = make_token(person(), "nightly")
    owner_of(secret)
    assert re.fullmatch(r"plumb_[0-9a-f]{64}", secret)
    assert (token.token_hash, token.last_four) == (digest(secret), secret[-4:])
    rows = [*ApiToken.objects.values(), *AuditEvent.objects.values()]
    random = secret.removeprefix("plumb_")
    assert random not in f"{rows} {caplog.text}"
    assert make_token(token.owner, "another")[1] != secret


def refusal(secret: str) -> str:
    with pytest.raises(TokenRefused) as refused:
        owner_of(secret)
    return str(refused.value)


def test_a_token_that_is_made_up_revoked_or_expired_is_refused_with_the_reason():
    user = person()
    revoked, secret_of_revoked = make_token(user, "revoked")
    expired, secret_of_expired = make_token(user, "expired", days=30)
    assert owner_of(secret_of_revoked) == owner_of(secret_of_expired) == user
    assert revoke_token(revoked.pk, user)
    ApiToken.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    assert "revoked" in refusal(secret_of_revoked)
    assert "expired" in refusal(secret_of_expired)
    assert "does not exist" in refusal("plumb_" + "0" * 64)
    assert "does not exist" in refusal(digest(secret_of_expired))
    assert [token.state() for token in (*ApiToken.objects.order_by("pk"),)] == ["Revoked", "Expired"]
    assert not ApiToken.objects.live().exists()


def test_a_token_of_a_closed_or_unconfirmed_account_is_refused():
    user = person()
    _, secret = make_token(user, "nightly")
    EmailAddress.objects.update(verified=False)
    assert "not confirmed" in refusal(secret)
    EmailAddress.objects.update(verified=True)
    assert owner_of(secret) == user
    User.objects.update(is_active=False)
    assert "not active" in refusal(secret)


def test_a_token_needs_a_confirmed_address_a_role_and_a_free_place():
    user = User.objects.create_user("eve", "eve@example.org")
    with pytest.raises(Refused, match="role"):
        make_token(user, "x")
    set_role(user, "viewer")
    user = User.objects.get(pk=user.pk)
    with pytest.raises(Refused, match="Confirm"):
        make_token(user, "x")
    EmailAddress.objects.create(user=user, email=user.email, verified=True)
    for number in range(MOST_TOKENS):
        token, _ = make_token(user, str(number))
    with pytest.raises(Refused, match="revoke one"):
        make_token(user, "x")
    revoke_token(token.pk, user)
    make_token(user, "x")


def test_when_a_token_was_last_used_is_kept_to_the_hour():
    token, secret = make_token(person(), "nightly")
    owner_of(secret)
    token.refresh_from_db()
    used = token.last_used_at
    assert (used.minute, used.second, used.microsecond) == (0, 0, 0)
    assert timedelta(0) <= timezone.now() - used < timedelta(hours=1)
    long_ago = used - timedelta(days=3)
    ApiToken.objects.update(last_used_at=long_ago)
    owner_of(secret)
    token.refresh_from_db()
    assert token.last_used_at == used or token.last_used_at == used + timedelta(hours=1)


def test_a_host_whose_clock_is_behind_does_not_take_the_last_use_back():
    token, _ = make_token(person(), "nightly", 30)
    for minute, hour in ((125, 2), (118, 2), (179, 2), (181, 3)):
        note_use(token, NEW_YEAR + timedelta(minutes=minute))
        token.refresh_from_db()
        assert token.last_used_at == NEW_YEAR + timedelta(hours=hour)


def test_the_record_says_which_token_was_made_until_when_and_revoked():
    user = person()
    now = timezone.now()
    dated, secret = make_token(user, "nightly", 90)
    endless, _ = make_token(user, "for ever")
    assert round((dated.expires_at - now) / timedelta(days=1)) == 90
    assert (dated.last_four, endless.expires_at) == (secret[-4:], None)
    assert revoke_token(dated.pk, user)
    assert not revoke_token(dated.pk, user), "it is revoked once"
    events = AuditEvent.objects.filter(verb__contains="token").order_by("pk")
    until = dated.expires_at.isoformat(timespec="seconds")
    assert [(event.verb, event.subject, event.actor, event.detail) for event in events] == [
        ("make API token", f"API token {dated.pk}", user, {"name": "nightly", "expires_at": until}),
        ("make API token", f"API token {endless.pk}", user, {"name": "for ever", "expires_at": None}),
        ("revoke API token", f"API token {dated.pk}", user, {}),
    ]


def test_a_person_makes_a_token_in_the_page_sees_it_once_and_revokes_it(client):
    user = person()
    client.force_login(user)
    page = reverse("tokens")
    made = client.post(page, {"name": "nightly <b>", "days": "30"})
    (secret,) = re.findall(r"plumb_[0-9a-f]{64}", made.content.decode())
    assert "no-store" in made["Cache-Control"]
    assert "nightly &lt;b&gt;" in made.content.decode()
    assert owner_of(secret) == user
    token = ApiToken.objects.get()
    assert timedelta(days=29) < token.expires_at - timezone.now() < timedelta(days=31)
    later = client.get(page).content.decode()
    assert secret not in later
    assert secret[-4:] in later
    client.post(reverse("revoke_token", args=[token.pk]))
    assert "revoked" in refusal(secret)
    verbs = AuditEvent.objects.filter(actor=user, verb__contains="token").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["make API token", "revoke API token"]
    again = client.post(reverse("revoke_token", args=[token.pk]), follow=True).content.decode()
    assert "no such token" in again


def test_a_password_that_is_reset_by_mail_revokes_all_tokens_of_its_owner(client, settings):
    settings.SITE_URL = "http://testserver"
    user, bob = person(), person("bob")
    (_, first), (_, second), (_, his) = make_token(user, "nightly"), make_token(user, "weekly"), make_token(bob, "mine")
    client.post(reverse("account_reset_password"), {"email": user.email})
    page = client.get(link_in(posted()[-1]), follow=True).request["PATH_INFO"]
    client.post(page, {"password1": "another long one", "password2": "another long one"})
    assert "revoked" in refusal(first)
    assert "revoked" in refusal(second)
    assert owner_of(his) == bob
    assert AuditEvent.objects.filter(verb="revoke API token", actor=user).count() == 2
    assert "Your API tokens are revoked" in posted()[-1].body


def test_a_mistake_in_the_form_is_named_at_its_field(client):
    client.force_login(person())
    wrong = client.post(reverse("tokens"), {"name": "", "days": "7"})
    assert wrong.status_code == 400
    assert set(wrong.context["form"].errors) == {"name", "days"}
    client.post(reverse("tokens"), {"name": "for ever", "days": ""})
    assert ApiToken.objects.get().expires_at is None


def test_nobody_sees_or_revokes_what_is_anothers(client):
    ada, eve = person(), person("eve")
    token, secret = make_token(ada, "a secret plan")
    client.force_login(eve)
    assert "a secret plan" not in client.get(reverse("tokens")).content.decode()
    client.post(reverse("revoke_token", args=[token.pk]))
    assert not revoke_token(token.pk, eve)
    assert owner_of(secret) == ada


def test_the_account_page_counts_the_tokens_that_work(client):
    user = person()
    make_token(user, "nightly")
    revoked, _ = make_token(user, "of last year")
    assert revoke_token(revoked.pk, user)
    client.force_login(user)
    assert "<dd>1 live</dd>" in client.get(reverse("account")).content.decode()
