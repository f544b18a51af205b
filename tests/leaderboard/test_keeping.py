"""A page is made once for each state of the board, and is never older than the board."""

import gzip
import re
import socket

import pytest
from django.contrib.auth.models import User
from django.core.cache import caches
from django.test import Client

from leaderboard.models import AuditEvent, ControlCheck, LanguageModel, Metric, Run, Submission, Work
from leaderboard.people.services.invitations import invite, revoke_invitation
from leaderboard.people.services.tokens import make_token, revoke_token
from leaderboard.queries.stamp import board_stamp
from leaderboard.services.audit import record
from leaderboard.services.checks import request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.language_models import add_bundled
from leaderboard.submissions.services.moderation import decide
from leaderboard.views import clients, keeping, page_store
from leaderboard.views.rankings import rankings
from tests.leaderboard.conftest import CAUSAL, finish
from tests.leaderboard.contributing import refused, send
from tests.leaderboard.test_accounts import person
from tests.pages import read_page

PAGES = [
    "/rankings/?metric=safety-starter",
    f"/models/{CAUSAL}/",
    "/history/",
    "/compare-scorers/",
    "/agreement/",
    f"/compare/?m={CAUSAL}",
]
NONCE = re.compile(r'nonce="[^"]*"')

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]


@pytest.fixture(autouse=True)
def _real_cache(settings):
    memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "keeping"}
    settings.CACHES = {**settings.CACHES, "pages": memory}
    caches["pages"].clear()
    yield
    caches["pages"].clear()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_made_once_and_then_costs_one_query(client, board, path, django_assert_num_queries):
    first = client.get(path)
    with django_assert_num_queries(1):
        second = client.get(path)
    assert second.content == first.content
    assert first.status_code == second.status_code == 200


@pytest.mark.parametrize("path", PAGES)
def test_a_reader_who_has_a_page_is_not_sent_it_again(client, board, path, django_assert_num_queries):
    etag = client.get(path)["ETag"]
    with django_assert_num_queries(1):
        answer = client.get(path, headers={"If-None-Match": etag})
    assert (answer.status_code, answer.content) == (304, b"")
    assert "Content-Type" not in answer


@pytest.mark.parametrize("path", PAGES)
def test_a_browser_that_can_gets_a_page_compressed_and_others_the_same_page(client, board, path):
    plain = client.get(path)
    compressed = client.get(path, headers={"Accept-Encoding": "br, gzip"})
    assert compressed["Content-Encoding"] == "gzip"
    assert read_page(gzip.decompress(compressed.content).decode()) == plain.content.decode()
    assert int(compressed["Content-Length"]) == len(compressed.content) < len(plain.content) / 2
    assert "Accept-Encoding" in plain["Vary"]
    assert plain["Cache-Control"] == "no-cache"


@pytest.mark.slow
def test_addresses_and_parts_of_pages_are_kept_apart(client, board):
    pages = {client.get(path)["ETag"] for path in (*PAGES, "/rankings/?metric=safety-toxigen")}
    asked = ({}, {"HX-Request": "true"}, {"HX-Target": "tables"})
    parts = {client.get(PAGES[0], headers=headers)["ETag"] for headers in asked}
    assert len(pages) == len(PAGES) + 1
    assert len(parts) == 3


@pytest.mark.slow
def test_a_new_entry_is_on_the_page_at_once(client, board):
    models = {model.name: model for model in add_bundled()}
    before = client.get("/rankings/?metric=safety-starter")
    late = next(model for model in models.values() if not model.scorings.exists())
    finish(late, board)
    after = client.get("/rankings/?metric=safety-starter", headers={"If-None-Match": before["ETag"]})
    assert after.status_code == 200
    assert f"/models/{late.slug}/" not in before.content.decode()
    assert f"/models/{late.slug}/" in after.content.decode()


def test_pages_are_made_anew_for_other_settings(client, board, settings):
    page_store.digest_makers.cache_clear()
    before = client.get("/about/")
    page_store.digest_makers.cache_clear()
    assert client.get("/about/").content == before.content
    settings.PROJECT_URL, settings.DIGEST = "https://forge.example/plumbline", "another"
    page_store.digest_makers.cache_clear()
    after = client.get("/about/", headers={"If-None-Match": before["ETag"]})
    page_store.digest_makers.cache_clear()
    assert after.status_code == 200
    assert settings.PROJECT_URL in after.content.decode()


def test_no_page_is_made_for_a_reader_who_has_left(client, board, monkeypatch):
    def leave(_request):
        raise clients.ClientGone

    monkeypatch.setattr(keeping, "require_client", leave)
    assert client.get("/models/?q=left").status_code == clients.CLIENT_CLOSED
    monkeypatch.undo()
    assert client.get("/models/?q=left").status_code == 200
    monkeypatch.setattr(keeping, "require_client", leave)
    assert client.get("/models/?q=left").status_code == 200, "what is ready is sent without a look"


def test_whatever_pages_show_changes_the_stamp(board):
    model = LanguageModel.objects.get(slug=CAUSAL)
    run = Run.objects.filter(model=model).first()
    other = Metric.objects.exclude(pk=board.pk).first()

    def another_model() -> None:
        LanguageModel.objects.create(slug="x", name="X", kind="causal", source="published")

    changes = [
        another_model,
        lambda: record("restrict model", f"model {CAUSAL}", {"reason": "asked for"}),
        lambda: (
            LanguageModel.objects.filter(slug="x").update(access="withdrawn")
            and record("withdraw model", "model x", {})
        ),
        lambda: ControlCheck.objects.create(metric=other, trigger="manual", state="failed", reason="it was away"),
        lambda: ControlCheck.objects.update(finished_at=run.created_at),
    ]
    seen = [board_stamp().kept]
    for change in changes:
        change()
        if change is not changes[3]:  # only a page that shows work shows a failed one
            seen.append(board_stamp().kept)
    assert len(set(seen)) == len(changes)


def test_what_people_ask_for_changes_no_page_and_has_none_made_anew(client, board):
    pages = [*PAGES, "/", "/models/", "/metrics/", "/about/changes/", "/feeds/rank-changes.atom"]
    before = {path: client.get(path) for path in pages}
    assert {page.status_code for page in before.values()} == {200}
    stamp, ada, operator = board_stamp(), person("ada"), person("olga", "operator")
    invitation, _ = invite("https://board.example.org", inviter=operator)
    revoke_invitation(invitation.pk, operator)
    token, _ = make_token(ada, "laptop")
    revoke_token(token.pk, ada)
    submission = refused(send([board.slug], b"no outputs", name="Another", kind="causal", user=ada))
    for decision in ("return", "reject"):
        Submission.objects.filter(pk=submission.pk).update(state=Submission.State.MODERATED)
        decide(submission, decision, "Say which texts it was trained on.", operator)
    events = list(AuditEvent.objects.order_by("-pk").values_list("verb", flat=True)[:9])
    assert {"set role", "invite", "make API token", "submit", "refuse submission", "reject submission"} <= set(events)
    assert board_stamp() == stamp
    caches["pages"].clear()
    for path, page in before.items():
        assert NONCE.sub("", client.get(path).content.decode()) == NONCE.sub("", page.content.decode()), path


def test_progress_changes_the_stamp_of_pages_that_show_it_alone(board, models):
    moving = [board_stamp()]
    late = next(model for model in models.values() if not model.scorings.filter(metric_version__metric=board).exists())
    scoring = request_evaluation(late, board, send=False)
    moving.append(board_stamp())
    still = board_stamp().kept
    for changes in (
        {"total": 100},
        {"done": 50, "total": 100},
        {"attempts": 1},
        {"held": True},
        {"state": Work.State.FAILED, "reason": "no memory"},
    ):
        Run.objects.filter(pk=scoring.run_id).update(**changes)
        moving.append(board_stamp())
    moving.pop(2)  # a total says nothing before something is done
    assert len(set(moving)) == len(moving)
    assert board_stamp().kept == still


@pytest.mark.slow
def test_only_pages_that_show_progress_are_made_anew_as_work_goes_on(client, board, models):
    late = next(model for model in models.values() if not model.scorings.filter(metric_version__metric=board).exists())
    pages = {"/metrics/": True, "/models/": False, "/about/": False, f"/metrics/{board.slug}/": False}
    before = {path: client.get(path)["ETag"] for path in pages}
    request_evaluation(late, board, send=False)
    assert {path: client.get(path)["ETag"] != tag for path, tag in before.items()} == pages


def test_who_is_signed_in_gets_a_page_of_their_own(client, board):
    anonymous = client.get(PAGES[0])
    operator = Client()
    operator.force_login(User.objects.create_user("ada", is_staff=True))
    own = operator.get(PAGES[0])
    assert "ETag" not in own
    assert b"/operate/" in own.content
    assert b"/operate/" not in anonymous.content
    assert client.get(PAGES[0]).content == anonymous.content


@pytest.mark.slow
def test_a_message_is_shown_once_and_to_nobody_else(client, board):
    operator = Client()
    operator.force_login(User.objects.create_user("ada", is_staff=True, is_superuser=True))
    assert operator.post(f"/operate/metrics/{board.slug}/check/").status_code == 302
    assert request_check(board, "manual", send=False).metric == board
    first, second = operator.get(PAGES[0]).content, operator.get(PAGES[0]).content
    assert b'class="message"' in first
    assert b'class="message"' not in second
    assert b'class="message"' not in client.get(PAGES[0]).content


@pytest.mark.slow
def test_an_address_that_does_not_exist_is_not_kept(client, board):
    for _ in range(2):
        assert client.get("/rankings/?metric=nonsense").status_code == 404
    assert "ETag" not in client.get("/rankings/?metric=nonsense")


def test_the_polling_of_a_page_is_never_kept(client, board):
    assert "ETag" not in client.get(PAGES[0], headers={"Plumbline-Seen": "0"})


@pytest.mark.parametrize("path", [*PAGES, "/about/", "/docs/", "/rankings.csv", "/metrics/safety-starter/"])
def test_a_parameter_that_a_page_does_not_read_leads_to_the_page_without_it(client, board, path):
    glue = "&" if "?" in path else "?"
    answer = client.get(f"{path}{glue}nonsense=1&utm_source=a&nonsense=2")
    assert (answer.status_code, answer["Location"]) == (302, path)
    assert len(caches["pages"]._cache) == 0


def test_what_a_page_reads_outlives_what_it_does_not(client, board):
    answer = client.get(f"/compare/?m={CAUSAL}&x=1&m=plumb-bert-l2-h128&q=a+b")
    assert answer["Location"] == f"/compare/?m={CAUSAL}&m=plumb-bert-l2-h128&q=a+b"
    assert client.get(answer["Location"]).status_code == 200


def test_no_page_is_made_for_a_client_that_is_gone(rf, board, django_assert_num_queries):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = rf.get("/rankings/?metric=safety-starter&q=gpt", **{"gunicorn.socket": ours})
        request.csp_nonce = "of the middleware"
        assert rankings(request).status_code == 200  # who waits gets it
        theirs.close()
        request = rf.get("/rankings/?metric=safety-starter&q=bert", **{"gunicorn.socket": ours})
        with django_assert_num_queries(1):
            assert rankings(request).status_code == 499
