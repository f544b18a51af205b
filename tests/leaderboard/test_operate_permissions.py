"""Who may operate the board: at every address nobody but operators, by GET nothing changes, and forms carry a token."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import (
    Artefact,
    AuditEvent,
    LanguageModel,
    Metric,
    Rescoring,
    RetiredScorer,
    Run,
    Scoring,
    Succession,
    Worker,
)
from leaderboard.operations.urls import urlpatterns
from leaderboard.people.services.invitations import invite
from leaderboard.people.services.roles import set_role
from leaderboard.services import workers
from leaderboard.services.rescore import open_rescoring
from tests.leaderboard.conftest import CAUSAL

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

OTHERS = (None, "viewer", "submitter", "moderator")


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch):
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 0.05)


@pytest.fixture
def addresses(measured_board) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """Every address under /operate/ by its name, with what a form sends there."""
    rescoring = open_rescoring(measured_board, "to be steered")
    Scoring.objects.filter(pk=Scoring.objects.filter(metric_version=rescoring.to_version).first().pk).update(
        state="failed", reason="the disk was full"
    )
    failed = Scoring.objects.get(state="failed")
    waiting = Scoring.objects.filter(state="queued", metric_version=rescoring.to_version).first()
    Worker.objects.create(name="gpu@host", queues=["gpu"], started_at=timezone.now(), beat_at=timezone.now())
    lost = failed.run.artefact
    Artefact.objects.filter(pk=lost.pk).update(state=Artefact.State.MISSING)
    successor = Succession.objects.create(metric=measured_board, scorer="likelihood", successor="profanity")
    reason = {"reason": "for a test"}
    policy = {"mean_difference": "0.02", "confidence": "0.9", "alpha": "0.05"}
    policy |= {"most_missing": "0.05", "brake_after": "2", "outdated_policy": "flag", "flag_policy": "hold"}
    models = [("restrict", reason), ("withdraw", reason), ("open", reason), ("hide", {"note": "hidden"}), ("show", {})]
    return {
        "operate": [(reverse("operate"), {})],
        "operate_workers": [(reverse("operate_workers"), {})],
        "operate_work": [(reverse("operate_work"), {})],
        "retry_all": [(reverse("retry_all") + "?kind=scorings", {"work": str(failed.pk)})],
        "steer_work": [
            (reverse("steer_work", args=["scorings", failed.pk, "retry"]), {}),
            (reverse("steer_work", args=["scorings", waiting.pk, "cancel"]), {}),
        ],
        "check_now": [(reverse("check_now", args=[measured_board.slug]), {})],
        "rescore": [(reverse("rescore", args=[measured_board.slug]), reason)],
        "drift_policy": [(reverse("drift_policy", args=[measured_board.slug]), policy | reason | {"confirmed": "yes"})],
        "retire_scorer": [(reverse("retire_scorer", args=["toxicity-profanity"]), reason)],
        "compare_successor": [
            (reverse("compare_successor", args=["toxicity-profanity"]), {"successor": "perspective"})
        ],
        "begin_succession": [(reverse("begin_succession", args=[successor.pk]), reason)],
        "steer_rescoring": [
            (reverse("steer_rescoring", args=[rescoring.pk, step]), {}) for step in ("pause", "resume", "cancel")
        ],
        "operate_files": [(reverse("operate_files"), {})],
        "steer_file": [(reverse("steer_file", args=[lost.sha256, step]), {}) for step in ("look", "collect")],
        "operate_models": [(reverse("operate_models"), {})],
        "operate_model": [(reverse("operate_model", args=[CAUSAL]), {})],
        "steer_model": [(reverse("steer_model", args=[CAUSAL, step]), sent) for step, sent in models],
        "restart_worker": [(reverse("restart_worker", args=["gpu@host"]), {})],
        "audit": [(reverse("audit"), {})],
        "invitations": [(reverse("invitations"), {"email": "", "days": "7"})],
        "revoke_invitation": [(reverse("revoke_invitation", args=[invite("http://x")[0].pk]), {})],
    }


def everything() -> list[object]:
    """What operators can change, as it is now."""
    tables = (AuditEvent, LanguageModel, Metric, Rescoring, RetiredScorer, Run, Scoring)
    return [list(table.objects.order_by("pk").values()) for table in tables]


def test_the_table_of_addresses_is_complete(addresses):
    moderators = {"moderation", "moderate", "decide_entry"}  # which tests of moderation try
    assert set(addresses) | moderators == {pattern.name for pattern in urlpatterns}


@pytest.mark.slow_cases
@pytest.mark.parametrize("role", OTHERS)
def test_nobody_but_an_operator_sees_or_does_anything(client, addresses, role):
    if role:
        user = User.objects.create_user(role)
        set_role(user, role)
        client.force_login(user)
    before = everything()
    for address, sent in [pair for of in addresses.values() for pair in of]:
        for response in (client.get(address), client.post(address, sent)):
            if role:
                assert response.status_code in (403, 405), (role, address)
            else:
                assert response.status_code in (302, 405), address
                assert response.status_code == 405 or response.url.startswith(reverse("account_login"))
    assert everything() == before


@pytest.mark.slow
def test_looking_changes_nothing_and_a_forged_form_is_refused(addresses):
    operator = User.objects.create_user("operator")
    set_role(operator, "operator")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    before = everything()
    for address, sent in [pair for of in addresses.values() for pair in of]:
        assert strict.get(address).status_code in (200, 405), address
        assert strict.post(address, sent).status_code in (403, 405), address
    assert everything() == before


@pytest.mark.slow
def test_an_operator_does_each_and_each_is_on_record(client, addresses):
    operator = User.objects.create_user("operator")
    set_role(operator, "operator")
    client.force_login(operator)
    del addresses["steer_work"][0]  # which retry-all does already
    for name in (
        "retry_all",
        "steer_work",
        "steer_rescoring",
        "check_now",
        "drift_policy",
        "retire_scorer",
        "restart_worker",
    ):
        for address, sent in addresses[name]:
            assert client.post(address, sent).status_code == 302, address
    for address, sent in addresses["steer_model"]:
        assert client.post(address, sent).status_code == 302, address
    done = list(AuditEvent.objects.filter(actor=operator).order_by("pk").values_list("verb", flat=True))
    assert done == [
        "retry scoring",
        "cancel scoring",
        "pause rescoring",
        "resume rescoring",
        "cancel rescoring",
        "request control check",
        "set drift policy",
        "retire scorer",
        "restart worker",
        "restrict model",
        "withdraw model",
        "reopen model",
        "hide model",
        "show model again",
    ]
    for event in AuditEvent.objects.filter(actor=operator):
        assert event.detail["before"] != event.detail["after"], event
    html = client.get(reverse("audit")).content.decode()
    assert all(f"<td>{verb}</td>" in html for verb in done)
