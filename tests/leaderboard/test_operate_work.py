"""Runs and scorings as operators see and steer them; queues and workers as they say themselves."""

from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from leaderboard.celery import app
from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    LanguageModel,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Run,
    Scoring,
)
from leaderboard.models.clock import from_now
from leaderboard.operations.queries.work import WorkSearch, count_work, find_work
from leaderboard.operations.services.retirement import retire_scorer
from leaderboard.operations.services.work import cancel_work, retry
from leaderboard.services import queue, workers
from leaderboard.services.access import set_access
from leaderboard.services.rescore import open_rescoring, pause
from scoring.refusals import Refused
from tests.leaderboard import living
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client) -> User:
    user = User.objects.create_user("operator", is_staff=True)
    client.force_login(user)
    return user


@pytest.fixture
def rescored(measured_board) -> Rescoring:
    """A rescoring that no worker has begun."""
    return open_rescoring(measured_board, "a new library")


def scoring_of(rescoring: Rescoring, slug: str) -> Scoring:
    return rescoring.to_version.scorings.get(model__slug=slug)


def failed(work, reason: str = "the disk was full"):
    type(work).objects.filter(pk=work.pk).update(state="failed", reason=reason, attempts=5)
    work.refresh_from_db()
    return work


@pytest.mark.slow
def test_work_is_found_by_kind_state_metric_and_model(client, operator, rescored):
    failed(scoring_of(rescored, CAUSAL))

    def shown(**query: str) -> list[str]:
        page = client.get(reverse("operate_work"), query).context["page"]
        return [work.model.slug for work in page]

    assert len(shown()) == 3
    assert shown(kind="scorings", state="failed") == [CAUSAL]
    assert shown(kind="scorings", state="failed", metric="safety-toxigen") == []
    assert set(shown(kind="scorings", state="queued", metric="safety-starter")) == {
        OTHER_CAUSAL,
        MASKED,
    }
    assert set(shown(kind="runs", q="plumb gpt2", metric="safety-starter")) == {CAUSAL, OTHER_CAUSAL}
    assert shown(kind="runs", q="nobody") == []
    assert "Nothing of that kind" in client.get(reverse("operate_work"), {"q": "nobody"}).content.decode()
    assert client.get(reverse("operate_work"), {"kind": "tables"}).status_code == 404
    assert client.get(reverse("operate_work"), {"state": "asleep"}).status_code == 404
    html = client.get(reverse("operate_work"), {"kind": "scorings", "state": "failed"}).content.decode()
    assert "the disk was full" in html


def test_paused_work_is_neither_waiting_nor_running_and_ended_work_is_not_paused(rescored):
    rescored.from_version.scorings.update(run=None)  # as figures of a paper, which nobody scores
    waiting, running, ended = (scoring_of(rescored, slug) for slug in (CAUSAL, OTHER_CAUSAL, MASKED))
    rows = {
        waiting: {"held": True},
        running: {"state": "running", "lease": uuid4(), "lease_expires_at": from_now(60), "held": True},
        ended: {"state": "failed", "reason": "lost", "held": True},
    }
    for scoring, values in rows.items():
        Scoring.objects.filter(pk=scoring.pk).update(**values)

    def find(state: str) -> list[Scoring]:
        return list(find_work(WorkSearch("scorings", state)))

    def count() -> dict[str, int]:
        return next(counts.states for counts in count_work() if counts.key == "scorings")

    none = dict.fromkeys(["queued", "running", "failed", "cancelled", "done", "paused"], 0)
    newest_first = sorted(rows, key=lambda scoring: -scoring.pk)
    assert find("") == newest_first
    assert find("paused") == [scoring for scoring in newest_first if scoring != ended]
    assert [find(state) for state in ("queued", "running", "failed", "done")] == [[], [], [ended], []]
    assert count() == none | {"paused": 2, "failed": 1}
    Scoring.objects.update(held=False)
    assert [find(state) for state in ("queued", "running", "failed", "paused")] == [[waiting], [running], [ended], []]
    assert count() == none | {"queued": 1, "running": 1, "failed": 1}


def test_work_of_every_kind_is_counted_and_only_runs_and_scorings_have_a_list(rescored):
    counts = {(one.one, one.key): one.states for one in count_work()}
    assert [key for _, key in counts if key] == ["runs", "scorings"]
    assert counts["run", "runs"]["done"] == Run.objects.count() == 3
    assert (counts["scoring", "scorings"]["done"], counts["scoring", "scorings"]["queued"]) == (3, 3)
    assert counts["control check", ""]["done"] == ControlCheck.objects.count() == 2


def test_work_is_searched_by_the_name_or_the_slug_of_its_model_and_by_its_own_metric(rescored):
    own, other = scoring_of(rescored, CAUSAL), scoring_of(rescored, MASKED)
    LanguageModel.objects.filter(pk=own.model_id).update(name="Alder", slug="tree")
    LanguageModel.objects.filter(pk=other.model_id).update(name="Birch", slug="leaf")

    def find(**search: str) -> set[str]:
        return {work.model.slug for work in find_work(WorkSearch(**search))}

    for kind in ("runs", "scorings"):
        assert find(kind=kind, search="ald") == find(kind=kind, search="TREE ald") == {"tree"}
        assert find(kind=kind, search="tree birch") == set()
        assert find(kind=kind, search="a", metric="safety-starter") >= {"tree", "leaf"}
        assert find(kind=kind, metric="safety-toxigen") == set()


def test_the_list_costs_as_many_queries_for_many_as_for_few(client, operator, rescored):
    def cost() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert client.get(reverse("operate_work"), {"kind": "scorings"}).status_code == 200
        return len(caught)

    few = cost()
    original = scoring_of(rescored, CAUSAL)
    for number in range(60):
        model = LanguageModel.objects.create(slug=f"m{number}", name=f"M {number}", kind="causal", source="uploaded")
        run = Run.objects.create(model=model, protocol=original.run.protocol)
        Scoring.objects.create(model=model, metric_version=original.metric_version, run=run)
    assert cost() == few
    assert len(client.get(reverse("operate_work"), {"kind": "scorings", "page": "2"}).context["page"]) == 63 + 3 - 50


def test_a_failed_scoring_is_asked_about_and_then_queued_again(client, operator, rescored):
    scoring = failed(scoring_of(rescored, CAUSAL))
    address = reverse("steer_work", args=["scorings", scoring.pk, "retry"])
    assert "the disk was full" in client.get(address).content.decode()
    assert client.post(address).status_code == 302
    scoring.refresh_from_db()
    assert (scoring.state, scoring.attempts, scoring.reason) == ("queued", 0, "")
    event = AuditEvent.objects.get(verb="retry scoring")
    assert (event.actor, event.subject) == (operator, f"scoring {scoring.pk}")
    assert event.detail["before"] == {"state": "failed", "reason": "the disk was full"}
    assert event.detail["after"] == {"state": "queued", "reason": ""}
    refused = client.post(address)
    assert refused.status_code == 400
    assert "only failed or cancelled work is tried again" in refused.content.decode()


def test_all_that_are_shown_are_retried_and_what_cannot_be_says_why(client, operator, rescored):
    gone, stays = failed(scoring_of(rescored, CAUSAL)), failed(scoring_of(rescored, OTHER_CAUSAL))
    old = Scoring.objects.exclude(metric_version=rescored.to_version).get(
        model__slug=CAUSAL, metric_version__status=MetricVersion.Status.CURRENT, run__isnull=False
    )
    address = reverse("retry_all") + "?kind=scorings&state=failed"
    html = client.get(address).content.decode()
    assert f'name="work" value="{gone.pk}"' in html
    assert f'name="work" value="{stays.pk}"' in html
    set_access(stays.model, "withdrawn", "its authors asked")
    page = client.post(address, {"work": [gone.pk, stays.pk, old.pk, "x"]}, follow=True).content.decode()
    gone.refresh_from_db()
    stays.refresh_from_db()
    old.refresh_from_db()
    assert (gone.state, stays.state, old.state) == ("queued", "failed", "done")
    assert "Queued again: 1 of 2." in page
    assert f"{OTHER_CAUSAL} is withdrawn" in page


def test_a_scoring_takes_its_run_along_and_restricted_models_are_not_run(rescored):
    scoring = failed(scoring_of(rescored, CAUSAL))
    Run.objects.filter(pk=scoring.run_id).update(state="cancelled", artefact=None)
    scoring.refresh_from_db()
    set_access(scoring.model, "restricted", "a licence")
    with pytest.raises(Refused, match="restricted: nothing is collected"):
        retry(scoring)
    set_access(scoring.model, "open", "cleared")
    retry(Scoring.objects.get(pk=scoring.pk))
    assert Run.objects.get(pk=scoring.run_id).state == "queued"
    assert set(AuditEvent.objects.filter(verb__startswith="retry").values_list("verb", flat=True)) == {
        "retry run",
        "retry scoring",
    }


def test_nothing_is_retried_under_a_version_that_is_closed(measured_board, rescored):
    scoring = scoring_of(rescored, CAUSAL)
    cancel_work(scoring)
    run = Run.objects.get(pk=scoring.run_id)
    Run.objects.filter(pk=run.pk).update(state="failed", reason="lost", artefact=None)
    run.refresh_from_db()
    with pytest.raises(Refused, match="retry its scoring, which takes the run along"):
        retry(run)
    MetricVersion.objects.filter(pk=rescored.to_version_id).update(status="retired")
    with pytest.raises(Refused, match="no metric version that is open"):
        retry(scoring)
    assert Run.objects.get(pk=run.pk).state == "failed"


@pytest.fixture
def queued(monkeypatch) -> list:
    """The work for which messages are sent."""
    works = []
    monkeypatch.setattr(queue, "_send", works.append)
    return works


def test_a_retry_sends_the_work_that_comes_first(rescored, queued, django_capture_on_commit_callbacks):
    scoring = failed(scoring_of(rescored, CAUSAL))
    with django_capture_on_commit_callbacks(execute=True):
        retry(scoring)
    assert queued == [scoring], "its outputs are here"
    Scoring.objects.filter(pk=scoring.pk).update(state="cancelled")
    Run.objects.filter(pk=scoring.run_id).update(state="failed", reason="lost", artefact=None)
    with django_capture_on_commit_callbacks(execute=True):
        retry(Scoring.objects.get(pk=scoring.pk))
    assert queued == [scoring, scoring.run]


def test_what_is_retried_under_a_paused_rescoring_waits_until_that_goes_on(rescored):
    scoring = failed(scoring_of(rescored, CAUSAL))
    assert pause(rescored, None)
    retry(scoring)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.held) == ("queued", True)


def test_the_record_says_of_which_model_texts_and_metric_the_work_is(rescored):
    scoring = scoring_of(rescored, CAUSAL)
    cancel_work(scoring)
    Run.objects.filter(pk=scoring.run_id).update(state="queued", artefact=None)
    run = Run.objects.get(pk=scoring.run_id)
    cancel_work(run)
    about_run = {"model": CAUSAL, "evaluation_set": str(run.protocol.evaluation_set)}
    about_scoring = {"model": CAUSAL, "metric": "safety-starter", "version": rescored.to_version.number}
    change = {"before": {"state": "queued"}, "after": {"state": "cancelled"}}
    events = AuditEvent.objects.filter(verb__startswith="cancel").order_by("pk")
    assert [(event.verb, event.subject, event.actor, event.detail) for event in events] == [
        ("cancel scoring", f"scoring {scoring.pk}", None, about_scoring | change),
        ("cancel run", f"run {run.pk}", None, about_run | change),
    ]
    assert (scoring.reason, run.reason) == ("cancelled by the terminal", "cancelled by the terminal")
    assert all(work.was_given_up() for work in (scoring, run)), "neither comes back by itself"
    assert scoring_of(rescored, MASKED).state == "queued"
    with pytest.raises(Refused, match=f"run {run.pk} is cancelled: only waiting or running work is cancelled"):
        cancel_work(run)
    retry(scoring)
    events = AuditEvent.objects.filter(verb__startswith="retry").order_by("pk")
    change = {
        "before": {"state": "cancelled", "reason": "cancelled by the terminal"},
        "after": {"state": "queued", "reason": ""},
    }
    assert [event.detail for event in events] == [about_run | change, about_scoring | change]


def test_figures_of_a_paper_are_not_scored_again(rescored):
    scoring = failed(scoring_of(rescored, CAUSAL))
    Scoring.objects.filter(pk=scoring.pk).update(run=None)
    with pytest.raises(Refused, match="of figures from a paper: there is nothing to score again"):
        retry(scoring)


def test_a_cancelled_entry_is_left_out_of_a_rescoring_and_its_worker_loses_the_lease(
    client, operator, rescored, django_capture_on_commit_callbacks
):
    from uuid import uuid4

    others = rescored.to_version.scorings.exclude(model__slug=CAUSAL)
    others.update(state="failed", reason="x")
    scoring, lease = scoring_of(rescored, CAUSAL), uuid4()
    assert scoring.claim(lease)
    with django_capture_on_commit_callbacks(execute=True):
        response = client.post(reverse("steer_work", args=["scorings", scoring.pk, "cancel"]))
    assert response.status_code == 302
    scoring.refresh_from_db()
    assert (scoring.state, scoring.lease, scoring.reason) == ("cancelled", None, "cancelled by operator")
    assert not scoring.renew(lease)
    rescored.refresh_from_db()
    assert rescored.state == "cancelled", "nothing was left to publish"
    assert OutdatedEntry.objects.filter(model=scoring.model).exists()
    with pytest.raises(Refused, match="only waiting or running work"):
        cancel_work(scoring)


@pytest.mark.slow
def test_with_a_retired_scorer_nothing_is_retried(tmp_path):
    with living.standing_in():
        metric = living.small_metric(tmp_path)
        scoring = living.submit(living.entrant(1, metric), metric)
        assert scoring.state == "done"
        Scoring.objects.filter(pk=scoring.pk).update(state="failed", reason="x")
        retire_scorer(living.NAME, "the service ended")
        with pytest.raises(Refused, match=r"is retired: .*the service ended"):
            retry(scoring)


@pytest.mark.slow
def test_without_a_worker_the_page_says_so_and_counts_what_waits(client, operator, rescored, monkeypatch):
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 0.05)
    before = workers.look().queues[1].messages
    app.send_task("leaderboard.tasks.sweep")
    fleet = workers.look()
    gpu, default, *others = fleet.queues
    assert [of.name for of in others] == ["readings", "downloads"]
    assert (gpu.name, gpu.waiting, gpu.workers) == ("gpu", 0, [])
    assert (default.name, default.messages, default.waiting) == ("default", before + 1, 3)
    assert (fleet.problem, fleet.workers, fleet.unattended) == ("", [], ["gpu", "default", "readings", "downloads"])
    page = client.get(reverse("operate_workers")).content.decode()
    assert "<h1>" in page
    assert "No worker answers" in page
    part = client.get(reverse("operate_workers"), headers={"HX-Request": "true"}).content.decode()
    assert "<h1>" not in part
    assert "No worker answers" in part
    app.control.purge()


def test_a_dead_broker_is_said_and_never_stops_the_page(client, operator, measured_board, monkeypatch, tmp_path):
    nowhere = app.connection_for_read(f"redis+socket://{tmp_path}/none.sock")
    monkeypatch.setattr(app, "connection_for_read", lambda **_: nowhere)
    page = client.get(reverse("operate_workers")).content.decode()
    assert "The broker does not answer" in page
    assert client.get(reverse("operate")).status_code == 200


def at(*tasks: dict) -> type:
    """What inspecting workers answers: one listens to `default`, with these tasks."""

    class Inspect:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def active_queues(self) -> dict:
            return {"default@here": [{"name": "default"}]}

        def active(self) -> dict:
            return {"default@here": list(tasks)}

    return Inspect


def sent_for(scoring: Scoring) -> dict:
    return {"id": str(scoring.pk), "name": "leaderboard.tasks.score_run", "args": []}


def test_workers_say_what_they_are_at_and_silent_ones_are_counted(monkeypatch, rescored):
    scoring, silent = scoring_of(rescored, CAUSAL), scoring_of(rescored, MASKED)
    for of in (scoring, silent):
        of.claim(uuid4(), "default@here")
    Scoring.objects.filter(pk=silent.pk).update(lease_expires_at=from_now(-1))
    sweep = {"id": "s", "name": "leaderboard.tasks.sweep", "args": []}
    monkeypatch.setattr(app.control, "inspect", at(sent_for(scoring), sweep))
    fleet = workers.look()
    assert fleet.workers[0].doing == [f"scoring {scoring.pk}: {scoring}", "sweep"]
    assert fleet.unattended == ["gpu", "readings", "downloads"]
    queue = fleet.queues[1]
    assert (queue.waiting, queue.running, queue.silent) == (1, 1, 1)


def test_a_worker_that_was_sent_for_one_entry_and_took_another_is_at_the_other(monkeypatch, rescored):
    asked, taken = scoring_of(rescored, CAUSAL), scoring_of(rescored, MASKED)
    taken.claim(uuid4(), "default@here")
    monkeypatch.setattr(app.control, "inspect", at(sent_for(asked)))
    assert workers.look().workers[0].doing == [f"scoring {taken.pk}: {taken}"]
