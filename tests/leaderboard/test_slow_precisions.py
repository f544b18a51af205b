"""Workers refuse a precision that their host is slow in: work goes to another one, waits by name, or is not taken."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.urls import reverse

from leaderboard.models import Incident, Run, Work, Worker
from leaderboard.models.clock import database_now
from leaderboard.operations.alerts import incidents
from leaderboard.services import abilities, collect, devices, hosts, leases, queue, signs_of_life
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.language_models import add_model
from leaderboard.services.memory import explain_size
from leaderboard.tasks import collect_one
from scoring.language_models import BUNDLED, product_rates
from scoring.language_models.product_rates import ProductRates
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.test_submit_as_run import ID, person, refused, send, signed_in, stage

__all__ = ["stage"]

pytestmark = pytest.mark.django_db
SLOW = ProductRates("alpha (a processor, 2 cores)", {"float32": 150.0, "bfloat16": 30.0, "float16": 15.0})
FAST = ProductRates("beta (a GPU)", {"float32": 50_000.0, "bfloat16": 600_000.0, "float16": 600_000.0})
FIGURES = "bfloat16 runs at 0.20x of float32 on alpha (a processor, 2 cores) (30 against 150 GFLOP/s)"


@pytest.fixture
def become(settings, monkeypatch):
    """Be the worker of alpha, which is slow in bfloat16, or of beta, which is not. Both have noted what they can do."""
    monkeypatch.delenv("SLOW_PRECISIONS", raising=False)
    rates = {"alpha": SLOW, "beta": FAST}

    def be(host: str) -> None:
        settings.HOST = host
        monkeypatch.setattr(product_rates, "_rates", lambda _kept_in: rates[host])
        for module in (abilities, leases):
            monkeypatch.setattr(module, "worker_name", lambda: f"gpu@{host}")

    for host in ("beta", "alpha"):
        be(host)
        signs_of_life.beat(f"gpu@{host}", ["gpu"])
        hosts.note_abilities(f"gpu@{host}")
    return be


@pytest.fixture
def run(metric) -> Run:
    """A run of an entry that declares bfloat16."""
    model, _ = add_model(str(BUNDLED / CAUSAL), precision="bfloat16")
    return request_evaluation(model, metric, send=False).run


def test_a_worker_notes_its_rates_and_what_it_refuses(become):
    alpha, beta = Worker.objects.order_by("name")
    assert (alpha.rates, beta.rates) == (SLOW.as_json(), FAST.as_json())
    assert alpha.problem_with("precision bfloat16").startswith(FIGURES)
    assert [one["problem"] == "" for one in alpha.precisions] == [True, False, False]
    assert [one["problem"] == "" for one in beta.precisions] == [True, True, True]


@pytest.mark.slow
def test_a_run_in_a_slow_precision_is_done_by_the_worker_that_is_fast_in_it(run, become):
    assert not queue.do_fairest(Run, collect_one)  # left to the other one
    become("beta")
    assert queue.do_fairest(Run, collect_one)
    run.refresh_from_db()
    assert (run.state, run.self_test["precision"]) == (Work.State.DONE, "bfloat16")


@pytest.mark.slow
def test_a_worker_that_has_not_measured_yet_gives_the_run_back_by_name(run, become):
    Worker.objects.filter(name="gpu@alpha").update(abilities={})
    assert queue.do_fairest(Run, collect_one)
    run.refresh_from_db()
    assert (run.state, run.attempts, run.fault) == (Work.State.QUEUED, 0, "")
    assert run.reason.startswith(f"gpu@alpha gave it back ({FIGURES}")
    assert run.reason.endswith("it is for gpu@beta")


@pytest.mark.slow
def test_a_protocol_s_precision_is_left_to_others_and_one_that_an_entry_declares_counts_before_it(run, become):
    usual, _ = add_model(str(BUNDLED / CAUSAL))
    exact, _ = add_model(str(BUNDLED / CAUSAL), precision="float32")
    protocol = run.protocol
    protocol.parameters["precision"] = "bfloat16"
    protocol.save()
    for model in (usual, exact):
        Run.objects.create(model=model, protocol=protocol)
    assert [one.model for one in queue.own_work(Run)] == [exact]


@pytest.mark.slow
def test_where_no_worker_is_fast_the_run_waits_and_an_incident_says_for_what(run, become):
    Worker.objects.filter(name="gpu@beta").delete()
    assert queue.do_fairest(Run, collect_one)
    run.refresh_from_db()
    assert (run.state, run.attempts, run.fault) == (Work.State.QUEUED, 0, "SlowPrecision")
    assert FIGURES in run.reason
    assert "SLOW_PRECISIONS=bfloat16" in run.reason
    Run.objects.update(waits_since=Now() - timedelta(minutes=5))
    summaries = [
        finding.summary for finding in incidents.findings(database_now()) if finding.kind == Incident.Kind.WAITING
    ]
    assert summaries == [
        "No worker is fast in the declared precision: 1 run wait until that is fixed, then go on by themselves."
    ]


def test_a_forced_precision_is_noted_with_its_rate_and_used(run, become, monkeypatch):
    monkeypatch.setenv("SLOW_PRECISIONS", "bfloat16")
    hosts.note_abilities("gpu@alpha")
    row = Worker.objects.get(name="gpu@alpha")
    assert [one["problem"] == "" for one in row.precisions] == [True, True, False]
    collect.require_ability(run)


@pytest.mark.slow
def test_the_page_of_workers_shows_the_rates_and_the_refusal(become, client):
    client.force_login(User.objects.create_user("operator", is_staff=True))
    page = " ".join(client.get(reverse("operate_workers")).content.decode().split())
    assert 'bfloat16 30 GFLOP/s (0.20x: <strong class="reason">refused</strong>)' in page
    assert FIGURES in page
    assert "bfloat16 600,000 GFLOP/s (12.00x)" in page


@pytest.mark.slow
def test_a_submission_is_refused_by_name_where_every_worker_is_slow_in_its_precision(stage, become):
    user = person()
    Worker.objects.filter(name="gpu@beta").delete()
    (problem,) = refused(user, ID, precision="bfloat16")["precision"]
    assert problem.startswith(f"No worker of this board takes bfloat16: {FIGURES}")
    page = " ".join(signed_in(user).post(reverse("submit_hub"), {"hub_id": ID, "look": ""}).content.decode().split())
    assert page.count("slower than float32 on all workers here") == 2
    assert list(send(user, ID, precision="float32")) == [("text", "float32")]


@pytest.mark.slow
def test_a_submission_is_taken_where_one_worker_is_fast_or_none_has_measured(stage, become):
    user = person()
    assert devices.slow_precisions() == {}
    Worker.objects.filter(name="gpu@beta").update(rates=None, abilities={})
    assert devices.slow_precisions() == {}
    assert list(send(user, ID, precision="bfloat16")) == [("text", "bfloat16")]


def test_a_refusal_for_size_names_no_precision_that_all_workers_are_slow_in(become, settings):
    settings.WORKER_MEMORY_GB = 4.0
    assert "Choose bfloat16 or float16, which fits" in explain_size(10**9)
    Worker.objects.filter(name="gpu@beta").delete()
    assert "Choose" not in explain_size(10**9)
