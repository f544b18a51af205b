"""A board by invitation: one person a link, once, until a day."""

import re
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import AuditEvent, Invitation
from leaderboard.people.services.credentials import digest
from leaderboard.people.services.invitations import (
    find_invitation,
    invite,
    revoke_invitation,
    send_invitation,
    use_invitation,
)
from scoring.refusals import Refused
from tests.leaderboard.test_accounts import person, posted, sign_up

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _by_invitation(settings):
    settings.BOARD_ACCESS = "invited"


def invited(**options) -> tuple[Invitation, str]:
    """An invitation and the path of its link."""
    invitation, link = invite("http://testserver", **options)
    return invitation, link.removeprefix("http://testserver")


def test_without_an_invitation_nobody_signs_up_and_reading_goes_on(client):
    page = client.get(reverse("account_signup"))
    assert "by invitation" in page.content.decode()
    assert sign_up(client).status_code == 200
    assert not User.objects.exists()
    assert client.get(reverse("account_login")).status_code == 200


def test_who_has_a_link_signs_up_with_it_once(client):
    invitation, path = invited()
    response = client.get(path)
    assert response.url == reverse("account_signup"), "the secret leaves the address"
    assert sign_up(client).url == reverse("account_email_verification_sent")
    invitation.refresh_from_db()
    assert invitation.used_by == User.objects.get(username="ada")
    assert invitation.state() == "Used"
    assert AuditEvent.objects.get(verb="use invitation").actor == invitation.used_by

    again = Client()
    assert again.get(path).status_code == 403
    sign_up(again, username="eve", email="eve@example.org")
    assert User.objects.count() == 1


def test_of_the_secret_only_a_hash_is_kept(client):
    invitation, path = invited()
    token = path.partition("invitation=")[2]
    assert re.fullmatch(r"invitation_[0-9a-f]{64}", token)
    assert invitation.token_hash == digest(token)
    client.get(path)
    everything = " ".join(str(row) for row in Invitation.objects.values()) + str(dict(client.session))
    assert token.removeprefix("invitation_") not in everything


def test_an_invitation_that_is_expired_or_withdrawn_or_made_up_says_so(client):
    expired, path_of_expired = invited()
    Invitation.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    withdrawn, path_of_withdrawn = invited()
    assert revoke_invitation(withdrawn.pk)
    assert not revoke_invitation(withdrawn.pk)
    for path in (path_of_expired, path_of_withdrawn, "/accounts/signup/?invitation=invitation_0"):
        page = client.get(path)
        assert page.status_code == 403
        assert "ask for a new one" in page.content.decode()
        sign_up(client)
    assert not User.objects.exists()


def test_an_invitation_withdrawn_while_somebody_writes_is_worth_nothing(client):
    invitation, path = invited()
    client.get(path)
    revoke_invitation(invitation.pk)
    assert "by invitation" in sign_up(client).content.decode()
    assert not User.objects.exists()


def test_an_invitation_for_an_address_is_good_for_that_one_alone(client):
    invitation, path = invited(email="Ada@Example.org")
    client.get(path)
    assert 'value="ada@example.org"' in client.get(reverse("account_signup")).content.decode()
    other = sign_up(client, email="eve@example.org")
    assert other.context["form"].errors["email"] == [
        "Your invitation is for ada@example.org: sign up with that address."
    ]
    with pytest.raises(Refused):
        use_invitation(invitation.pk, User.objects.create_user("eve", "eve@example.org"))
    assert sign_up(client).status_code == 302


def test_an_invitation_is_used_up_alone_and_no_other_stands_in_for_it():
    (first, _), (second, _) = invited(), invited()
    use_invitation(first.pk, User.objects.create_user("ada", "ada@example.org"))
    with pytest.raises(Refused):
        use_invitation(first.pk, User.objects.create_user("eve", "eve@example.org"))
    assert list(Invitation.objects.open()) == [second]


def test_whoever_comes_without_an_invitation_uses_up_nobody_elses():
    invitation, _ = invited()
    user = User.objects.create_user("eve", "eve@example.org")
    for pk in (0, invitation.pk + 1):
        with pytest.raises(Refused, match="has been used, was withdrawn, or is for another e-mail address"):
            use_invitation(pk, user)
    assert find_invitation("invitation_0") is None
    assert list(Invitation.objects.open()) == [invitation]
    assert not AuditEvent.objects.filter(verb="use invitation").exists()


def test_a_letter_brings_the_link_and_says_until_when_it_works(settings):
    invitation, link = invite("https://board.example.org", "ada@example.org")
    Invitation.objects.filter(pk=invitation.pk).update(expires_at=datetime(2026, 12, 5, 12, tzinfo=UTC))
    invitation.refresh_from_db()
    send_invitation(invitation, link)
    (letter,) = posted()
    assert (letter.subject, letter.to) == ("Plumbline: you are invited", ["ada@example.org"])
    assert f"works once, until 5 December 2026:\n\n{link}\n\n" in letter.body
    assert letter.body.endswith("you can ignore this e-mail.\n")


def test_a_failed_attempt_does_not_use_an_invitation_up(client):
    _, path = invited()
    client.get(path)
    assert sign_up(client, password1="short").status_code == 200
    assert sign_up(client).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_of_two_who_sign_up_with_one_invitation_at_once_one_comes_in():
    for round_ in range(3):
        invitation, path = invited()
        start, answers = Barrier(2), []

        def come(name: str, path: str = path, start: Barrier = start, answers: list = answers) -> None:
            browser = Client()
            browser.get(path)
            start.wait()
            try:
                answers.append(sign_up(browser, username=name, email=f"{name}@example.org").status_code)
            finally:
                connection.close()

        threads = [Thread(target=come, args=(f"{name}{round_}",)) for name in ("ada", "eve")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [200, 302]
        invitation.refresh_from_db()
        assert User.objects.filter(username__endswith=round_).get() == invitation.used_by


@pytest.mark.django_db(transaction=True)
def test_of_two_who_take_one_name_at_once_one_gets_it_and_the_other_is_told(settings):
    settings.BOARD_ACCESS = "open"
    start, answers = Barrier(2), []

    def come(email: str) -> None:
        start.wait()
        try:
            answers.append(sign_up(Client(), email=email))
        finally:
            connection.close()

    threads = [Thread(target=come, args=(f"ada{number}@example.org",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200, 302]
    refused = next(answer for answer in answers if answer.status_code == 200)
    assert "This name is taken" in refused.content.decode()
    assert User.objects.count() == 1


def test_the_database_refuses_an_invitation_used_by_nobody_or_used_and_withdrawn():
    invitation, _ = invited()
    user = person()
    for wrong in ({"used_at": timezone.now()}, {"used_by": user}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Invitation.objects.filter(pk=invitation.pk).update(**wrong)
    now = timezone.now()
    with pytest.raises(IntegrityError), transaction.atomic():
        Invitation.objects.filter(pk=invitation.pk).update(used_at=now, used_by=user, revoked_at=now)


def test_an_invitation_is_made_at_the_terminal_and_mailed(capsys, settings):
    settings.SITE_URL = "https://board.example.org"
    call_command("invite", "--email", "ada@example.org", "--days", "3")
    out = capsys.readouterr().out
    link = re.search(r"https://board\.example\.org/accounts/signup/\?invitation=\S+", out)[0]
    assert find_invitation(link.partition("=")[2]).email == "ada@example.org"
    (letter,) = posted()
    assert letter.to == ["ada@example.org"]
    assert link in letter.body
    call_command("invite")
    assert len(posted()) == 1
    for wrong, message in (({"days": 0}, "days = 0"), ({"email": "nobody"}, "email = 'nobody'")):
        with pytest.raises(CommandError, match=message):
            call_command("invite", **wrong)
    with pytest.raises(Refused):
        invite("http://testserver", days=366)
    assert Invitation.objects.count() == 2


def test_the_record_says_who_was_invited_by_whom_until_when_and_who_came_or_did_not(settings):
    olga, user = person("olga", "operator"), User.objects.create_user("ada", "ADA@example.org")
    now = timezone.now()
    used, link = invite("https://board.example.org/", "Ada@Example.org", 365, olga)
    withdrawn, _ = invite("https://board.example.org", days=1)
    assert link.startswith("https://board.example.org/accounts/signup/?invitation=invitation_")
    ends = [round((one.expires_at - now) / timedelta(days=1)) for one in (used, withdrawn)]
    assert ends == [365, 1]
    use_invitation(used.pk, user)
    assert revoke_invitation(withdrawn.pk, olga)
    used.refresh_from_db()
    assert used.used_by == user
    assert used.used_at >= now
    details = [
        {"email": one.email, "expires_at": one.expires_at.isoformat(timespec="seconds")} for one in (used, withdrawn)
    ]
    change = {"before": {"state": "Open"}, "after": {"state": "Revoked"}}
    events = AuditEvent.objects.filter(verb__contains="invit").order_by("pk")
    assert [(event.verb, event.subject, event.actor, event.detail) for event in events] == [
        ("invite", str(used), olga, details[0]),
        ("invite", str(withdrawn), None, details[1]),
        ("use invitation", f"invitation {used.pk}", user, {}),
        ("revoke invitation", f"invitation {withdrawn.pk}", olga, change),
    ]


@pytest.mark.parametrize(("days", "email"), [(0, ""), (366, ""), (-1, ""), (7, "nobody"), (7, "a b@example.org")])
def test_an_invitation_without_an_end_within_a_year_or_an_address_is_refused(days, email):
    with pytest.raises(Refused, match="days = " if days != 7 else "email = "):
        invite("http://testserver", email, days)
    assert not Invitation.objects.exists()


def test_an_operator_invites_in_the_page_sees_the_link_once_and_withdraws(client):
    olga = person("olga", "operator")
    client.force_login(olga)
    page = reverse("invitations")
    made = client.post(page, {"email": "ada@example.org", "days": 7})
    link = re.search(r"http://testserver/accounts/signup/\?invitation=\w+", made.content.decode())[0]
    assert "no-store" in made["Cache-Control"]
    assert link in posted()[0].body
    assert link not in client.get(page).content.decode()
    invitation = Invitation.objects.get()
    assert invitation.invited_by == olga
    assert AuditEvent.objects.get(verb="invite").actor == olga
    client.post(reverse("revoke_invitation", args=[invitation.pk]))
    assert "Revoked" in client.get(page).content.decode()
    assert (
        "nothing to withdraw"
        in client.post(reverse("revoke_invitation", args=[invitation.pk]), follow=True).content.decode()
    )
    wrong = client.post(page, {"email": "nobody", "days": 0})
    assert wrong.status_code == 400
    assert set(wrong.context["form"].errors) == {"email", "days"}


def test_only_operators_invite_and_withdraw(client):
    invitation, _ = invited()
    client.force_login(person("grace", "moderator"))
    assert client.post(reverse("invitations"), {"days": 7}).status_code == 403
    assert client.post(reverse("revoke_invitation", args=[invitation.pk])).status_code == 403
    assert Invitation.objects.open().get() == invitation


def test_the_page_of_many_invitations_asks_the_database_as_often_as_that_of_one(client):
    olga = person("olga", "operator")
    client.force_login(olga)
    counts = []
    for more in (1, 20):
        for _ in range(more):
            invited(inviter=olga)
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse("invitations"))
        counts.append(len(queries))
    assert counts[0] == counts[1]
