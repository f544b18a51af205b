"""Django's admin: every table for staff to look at, little to change, everything on record, one way in."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import models
from django.test import Client
from django.urls import reverse

from leaderboard.models import AuditEvent, LanguageModel, Metric, OutboxMessage, Run
from leaderboard.people.services.invitations import invite
from leaderboard.people.services.roles import role_of, set_role
from leaderboard.people.services.tokens import make_token
from leaderboard.services.outbox import post
from tests.leaderboard.conftest import CAUSAL

pytestmark = pytest.mark.django_db

INDEX = "/admin/"
# And users, but for oneself, and their addresses.
EDITABLE = {"languagemodel", "modelidentity", "metric", "evaluationset"}


def named(model: type[models.Model], page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


@pytest.fixture
def chief(client) -> User:
    user = User.objects.create_superuser("chief", "chief@example.org", "a long passphrase")
    client.force_login(user)
    return user


@pytest.fixture
def staff() -> Client:
    client = Client()
    client.force_login(User.objects.create_user("staff", is_staff=True))
    return client


@pytest.mark.slow
def test_there_is_no_second_way_in(client):
    User.objects.create_superuser("chief", "chief@example.org", "a long passphrase")
    entrance = client.get(INDEX, follow=True)
    assert entrance.redirect_chain[-1][0] == f"{reverse('account_login')}?next=/admin/"
    secret = {"username": "chief", "password": "a long passphrase", "next": INDEX}
    tried = client.post(reverse("admin:login"), secret)
    assert tried.url.startswith(reverse("account_login"))
    assert "_auth_user_id" not in client.session
    for wanted in ("https://evil.example/", "//evil.example/admin/", "/accounts/"):
        assert "evil" not in client.get(reverse("admin:login"), {"next": wanted}).url
    client.force_login(User.objects.get())
    assert client.get(reverse("admin:password_change")).url == reverse("account_change_password")


@pytest.mark.parametrize("role", ["viewer", "submitter", "moderator", "operator"])
def test_who_is_not_staff_is_refused(client, role):
    user = User.objects.create_user(role)
    set_role(user, role)
    client.force_login(user)
    for path in (INDEX, named(Metric, "changelist"), named(User, "changelist")):
        assert client.get(path, follow=True).status_code == 403


@pytest.mark.slow
def test_every_table_is_there_can_be_searched_and_shows_no_secret(client, chief, measured_board):
    token, secret = make_token(chief, "nightly")
    invitation, _ = invite("http://x")
    registered = set(admin.site._registry)
    ours = set(apps.get_app_config("leaderboard").get_models())
    assert ours <= registered
    assert {User, *apps.get_app_config("account").get_models()} <= registered
    assert client.get(INDEX).status_code == 200
    for model, options in admin.site._registry.items():
        assert options.search_fields, model
        response = client.get(named(model, "changelist"), {"q": "plumb"})
        assert response.status_code == 200, model
        found = model._default_manager.first()
        if found is not None:
            html = client.get(named(model, "change", found.pk)).content.decode()
            assert "pbkdf2" not in html
            assert token.token_hash not in html
            assert invitation.token_hash not in html
            assert chief.password not in html
    assert secret not in client.get(named(type(token), "changelist")).content.decode()


def test_nobody_reads_what_a_letter_says_that_waits_to_be_sent(client, chief, staff):
    post("new@example.org", "Confirm your address", "https://board.example.org/accounts/confirm-email/the-key/")
    letter = OutboxMessage.objects.get()
    for reader in (client, staff):
        html = reader.get(named(OutboxMessage, "change", letter.pk)).content.decode()
        assert "Confirm your address" in html
        assert "the-key" not in html


@pytest.mark.slow
def test_what_is_immutable_cannot_be_added_changed_or_deleted(client, chief, measured_board):
    for model, options in admin.site._registry.items():
        name = model._meta.model_name
        assert client.get(named(model, "add")).status_code == 403, model
        found = model._default_manager.first()
        if found is None:
            continue
        before = list(model._default_manager.order_by("pk").values())
        assert client.post(named(model, "delete", found.pk), {"post": "yes"}).status_code == 403, model
        sent = {"action": "delete_selected", "_selected_action": [found.pk], "post": "yes"}
        client.post(named(model, "changelist"), sent)
        changed = client.post(named(model, "change", found.pk), {"verb": "x", "value": "1", "state": "done"})
        assert changed.status_code == (200 if name in EDITABLE else 403), model
        assert options.get_actions(_request(chief)) == {}
        if name not in ("logentry", "auditevent"):
            assert list(model._default_manager.order_by("pk").values()) == before, model


def _request(user: User):
    from django.test import RequestFactory

    request = RequestFactory().get(INDEX)
    request.user = user
    return request


def test_a_change_is_recorded_with_what_was_before(client, chief, measured_board):
    model = LanguageModel.objects.get(slug=CAUSAL)
    sent = {"name": "Plumb GPT-2, small", "family": model.family, "licence": "MIT", "access": "withdrawn", "slug": "x"}
    assert client.post(named(LanguageModel, "change", model.pk), sent).status_code == 302
    model.refresh_from_db()
    assert (model.name, model.licence, model.access, model.slug) == ("Plumb GPT-2, small", "MIT", "open", CAUSAL)
    event = AuditEvent.objects.get(verb="change in admin")
    assert (event.actor, event.subject) == (chief, f"model {CAUSAL}")
    assert event.detail["before"]["name"] == CAUSAL
    assert event.detail["after"] == {"name": "Plumb GPT-2, small", "licence": "MIT"}
    assert "Plumb GPT-2, small" in client.get(reverse("audit"), {"q": CAUSAL}).content.decode()
    client.post(named(LanguageModel, "change", model.pk), sent)
    assert AuditEvent.objects.filter(verb="change in admin").count() == 1, "nothing changed"


def test_staff_look_and_superusers_say_who_may_do_what(client, chief, staff):
    user = User.objects.create_user("newcomer", "new@example.org")
    set_role(user, "submitter")
    page = named(User, "change", user.pk)
    assert staff.get(page).status_code == 200
    assert staff.post(page, {"is_superuser": "on", "is_active": "on"}).status_code == 403
    sent = {"is_active": "on", "role": "moderator", "username": "root", "password": "x"}
    assert client.post(page, sent).status_code == 302
    user.refresh_from_db()
    assert (user.username, user.is_active, user.is_superuser, role_of(user).name) == (
        "newcomer",
        True,
        False,
        "moderator",
    )
    assert AuditEvent.objects.filter(verb="set role", actor=chief).count() == 1
    client.post(page, {"role": "moderator", "is_staff": "on"})
    user.refresh_from_db()
    assert (user.is_active, user.is_staff) == (False, True)
    event = AuditEvent.objects.get(verb="change in admin")
    assert event.detail == {
        "before": {"is_active": True, "is_staff": False},
        "after": {"is_active": False, "is_staff": True},
    }
    assert "cannot be taken away" in client.post(page, {"role": ""}).content.decode()


def test_a_forged_form_changes_nothing(chief, measured_board):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(chief)
    run = Run.objects.first()
    assert strict.post(named(Metric, "change", measured_board.pk), {"title": "x"}).status_code == 403
    assert strict.post(named(Run, "change", run.pk), {"state": "queued"}).status_code == 403
    assert not AuditEvent.objects.filter(verb="change in admin").exists()
