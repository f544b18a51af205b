"""A board under newer code: all is scored again by itself, once, with the reason, and the old numbers stay."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.urls import reverse
from django.utils.html import escape

from leaderboard import tasks
from leaderboard.models import (
    AuditEvent,
    ControlSet,
    Metric,
    MetricVersion,
    Provenance,
    Rescoring,
    Run,
    Scoring,
    Submission,
    Work,
)
from leaderboard.operations.services.retirement import retire_scorer
from leaderboard.services import rescore, upgrade
from leaderboard.services.checks import perform, request_check, request_due_checks
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.publish import ranked_measures
from leaderboard.services.rescore import cancel, open_rescoring, pause
from leaderboard.services.score import score
from leaderboard.services.upgrade import catch_up, catch_up_all
from scoring.drift import rule
from scoring.metrics.formulas import FORMULAS
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL, finish
from tests.leaderboard.living import (
    NAME,
    SLUG,
    Killed,
    Stage,
    active,
    drain,
    drift,
    entrant,
    names_of,
    numbers_of,
    small_metric,
    standing_in,
    standings_of,
    submit,
)
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of
from tests.leaderboard.test_accounts import person

pytestmark = pytest.mark.django_db

Status = MetricVersion.Status
CHANGE = "Missing continuations count in every measure."
REASON = f"The formula Toxicity rose from version 1 to 2: {CHANGE}"


@pytest.fixture(autouse=True)
def stage(monkeypatch) -> Iterator[Stage]:
    """The stand-in for a scorer, under the first versions of formula and rule whatever this code has by now."""
    formula = FORMULAS["toxicity"]
    measures = {key: replace(measure, since=1) for key, measure in formula.measures.items()}
    monkeypatch.setitem(FORMULAS, "toxicity", replace(formula, version=1, changes={}, measures=measures))
    monkeypatch.setattr(rule, "CHECK_VERSION", 1)
    with standing_in() as found:
        yield found


@pytest.fixture
def board(db, tmp_path) -> Metric:
    """Three entries under the first version."""
    metric = small_metric(tmp_path)
    for number in (1, 2, 3):
        request_evaluation(entrant(number, metric), metric, send=False)
    drain()
    return metric


@pytest.fixture
def newer(monkeypatch):
    """Gives the formula its second version when called."""

    def install(name: str = "toxicity") -> None:
        formula = FORMULAS[name]
        changes = {**formula.changes, formula.version + 1: CHANGE}
        monkeypatch.setitem(FORMULAS, name, replace(formula, version=formula.version + 1, changes=changes))

    return install


@pytest.mark.slow
def test_the_sweep_scores_everything_again_publishes_it_and_says_why(board, newer, client):
    old = board.current_version()
    before = standings_of(old)
    assert catch_up_all() == []
    newer()
    tasks.watch()
    assert catch_up_all() == []
    rescoring = Rescoring.objects.get()
    assert (rescoring.by_upgrade, rescoring.reason, rescoring.total) == (True, REASON, 3)
    drain()
    new = board.current_version()
    assert (new.number, new.formula_version, names_of(new)) == (2, 2, names_of(old))
    old.refresh_from_db()
    assert (old.status, old.formula_version, standings_of(old)) == (Status.SUPERSEDED, 1, before)
    assert old.scorings.filter(state=Work.State.DONE).count() == 3
    assert catch_up_all() == []
    assert Rescoring.objects.count() == 1
    assert AuditEvent.objects.filter(verb="open rescoring").get().detail["reason"] == REASON
    for page in ("changes", "history"):
        assert escape(REASON) in client.get(reverse(page), {"metric": SLUG}).content.decode()
    assert f"Plumbline was upgraded. {REASON}" in client.get(board.get_absolute_url()).content.decode()


@pytest.mark.slow
def test_every_version_that_was_passed_over_says_what_it_changed(board, newer):
    newer()
    newer()
    catch_up(board)
    expected = f"The formula Toxicity rose from version 1 to 3: {CHANGE} {CHANGE}"
    assert Rescoring.objects.get().reason == expected


@pytest.mark.slow
def test_work_under_the_old_version_moves_even_where_a_worker_is_there_before_the_sweep(board, newer):
    model = entrant(4, board)
    scoring = request_evaluation(model, board, send=False)
    newer()
    score(scoring)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.reason) == (Work.State.CANCELLED, f"moved to {SLUG} v2: {REASON}")
    drain()
    assert len(names_of(board.current_version())) == 4


def test_a_worker_of_older_code_leaves_newer_work_to_others(board, newer, monkeypatch):
    older = FORMULAS["toxicity"]
    newer()
    catch_up(board)
    monkeypatch.setitem(FORMULAS, "toxicity", older)
    scoring = active(board).to_version.scorings.first()
    score(scoring)
    scoring.refresh_from_db()
    assert scoring.state == Work.State.QUEUED
    assert scoring.reason == f"{SLUG} v2 is of formula version 2, a worker has 1: upgrade it"
    Scoring.objects.filter(metric_version__number=2).update(state=Work.State.CANCELLED)
    assert not rescore.advance(active(board))
    assert not catch_up(board)


@pytest.mark.slow
def test_a_rescoring_under_way_starts_anew_and_a_paused_one_stays_paused(board, newer, stage):
    drift(stage)
    perform(request_check(board, "manual", send=False))
    pause(active(board))
    newer()
    assert catch_up(board)
    found = active(board)
    assert (found.from_version.number, found.to_version.number, found.state) == (1, 3, Rescoring.State.PAUSED)
    assert board.versions.get(number=2).status == Status.RETIRED
    rescore.resume(found)
    drain()
    assert (board.current_version().number, len(names_of(board.current_version()))) == (3, 3)


@pytest.mark.slow
def test_a_rescoring_with_another_scorer_starts_anew_with_that(board, newer):
    open_rescoring(board, "The service has ended.", scorer="profanity")
    retire_scorer(NAME, "The service has ended.")
    newer()
    assert catch_up(board)
    assert active(board).to_version.scorer == "profanity"


@pytest.mark.slow
def test_a_first_version_that_nothing_was_published_under_gives_way(db, tmp_path, newer):
    metric = small_metric(tmp_path)
    model = entrant(1, metric)
    request_evaluation(model, metric, send=False)
    submission = Submission.objects.create(submitter=person(), form="hub", model=model, payload={}, state="accepted")
    newer()
    catch_up_all()
    first, second = metric.versions.order_by("number")
    assert (first.status, second.status, second.formula_version) == (Status.RETIRED, Status.CANDIDATE, 2)
    drain()
    assert (metric.current_version(), names_of(second)) == (second, {model.slug})
    (line,) = submission.lines.filter(text__contains=f"Version 2 of {metric.title} takes over.")
    assert "The formula" in line.text


def test_a_first_version_that_nothing_waits_for_is_closed(db, tmp_path, newer):
    metric = small_metric(tmp_path)
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    Scoring.objects.filter(pk=scoring.pk).update(state=Work.State.CANCELLED)
    newer()
    assert catch_up(metric)
    assert metric.versions.get().status == Status.RETIRED
    assert not catch_up(metric)


@pytest.mark.slow
def test_what_a_killed_worker_half_opened_is_opened_once(board, newer, monkeypatch):
    newer()
    with monkeypatch.context() as patch:

        def die(*_args):
            raise Killed

        patch.setattr(rescore, "record", die)
        with pytest.raises(Killed):
            catch_up(board)
    assert (Rescoring.objects.count(), board.versions.count()) == (0, 1)
    assert catch_up_all() == [board]
    assert catch_up_all() == []


@pytest.mark.slow
def test_of_two_workers_that_see_it_at_once_one_opens_it(board, newer, monkeypatch):
    newer()
    look, rivals = upgrade.find_lag, [True]

    def look_as_another_acts(metric):
        lag = look(metric)
        if rivals:
            rivals.clear()
            assert catch_up(metric)
        return lag

    monkeypatch.setattr(upgrade, "find_lag", look_as_another_acts)
    assert not catch_up(board)
    assert Rescoring.objects.count() == 1


@pytest.mark.slow
def test_the_versions_of_a_retired_scorer_stay_and_the_page_says_of_what_they_are(board, newer, client):
    old = board.current_version()
    retire_scorer(NAME, "The service has ended.")
    newer()
    catch_up_all()
    assert (board.current_version(), Rescoring.objects.count()) == (old, 0)
    for address in (board.get_absolute_url(), board.ranking_url):
        page = client.get(address).content.decode()
        assert "These numbers are of an older formula" in page
        assert escape(REASON) in page
        assert "The service has ended." in page


@pytest.mark.slow
def test_a_rescoring_that_was_given_up_is_not_opened_again_and_new_entries_are_told(board, newer, client):
    newer()
    catch_up(board)
    cancel(active(board))
    assert not catch_up(board)
    assert "the rescoring to version 2 was given up" in client.get(board.get_absolute_url()).content.decode()
    scoring = submit(entrant(4, board), board)
    assert scoring.state == Work.State.FAILED
    assert scoring.reason.startswith(f"{SLUG} v1 is behind the code: {REASON} Run `manage.py rescore {SLUG}`")
    open_rescoring(board, "after all")
    drain()
    assert len(names_of(board.current_version())) == 4
    page = " ".join(client.get(board.get_absolute_url()).content.decode().split())
    assert (
        f"An operator asked for it: after all <strong>Its formula is version 2, formerly 1:</strong> {CHANGE}" in page
    )


@pytest.mark.slow
def test_figures_from_papers_are_left_alone(db, board, newer):
    MetricVersion.objects.filter(metric=board).update(provenance="published", source="A paper")
    newer()
    assert catch_up_all() == []


@pytest.mark.slow
def test_another_rule_of_checks_opens_a_version_with_a_control_set_of_its_own(board, monkeypatch, client):
    control = ControlSet.objects.get()
    check = request_check(board, "schedule", send=False)
    monkeypatch.setattr(rule, "CHECK_VERSION", 2)
    monkeypatch.setattr(rule, "CHANGES", {2: "Each text has a noise of its own."})
    perform(check)
    check.refresh_from_db()
    assert check.state == Work.State.CANCELLED
    expected = "The rule of control checks rose from version 1 to 2: Each text has a noise of its own."
    assert Rescoring.objects.get().reason == expected
    drain()
    assert ControlSet.objects.get(metric_version__number=2).check_version == 2
    control.refresh_from_db()
    assert control.check_version == 1
    assert not catch_up(board)
    assert Rescoring.objects.count() == 1


@pytest.mark.slow
def test_a_control_set_of_an_older_rule_is_not_checked_where_the_rescoring_was_given_up(board, monkeypatch):
    monkeypatch.setattr(rule, "CHECK_VERSION", 2)
    monkeypatch.setattr(rule, "CHANGES", {2: "Each text has a noise of its own."})
    catch_up(board)
    cancel(active(board))
    with pytest.raises(Refused, match="was measured for version 1 of the rule of checks"):
        request_check(board, "manual")
    assert request_due_checks() == 0


@pytest.mark.slow
def test_likelihoods_are_kept_with_the_control_set_that_they_were_made_with(metric, models, newer):
    finish(models[CAUSAL], metric)
    first = ControlSet.objects.get()
    newer("safety")
    assert catch_up(metric)
    drain()
    new = metric.current_version()
    control = ControlSet.objects.get(metric_version=new)
    assert (new.number, control.reference, control.environment) == (2, first.reference, first.environment)
    assert Run.objects.count() == 1
    assert numbers_of(new) == numbers_of(metric.versions.get(number=1))


def test_a_version_of_an_older_formula_ranks_the_measures_that_it_was_published_with():
    metric = metric_of("careful", "profanity")
    version = version_of(metric, "careful")
    score_all(version, runs_on(metric), {"profanity": lambda x: x})
    every_measure = [measure.key for measure in metric.formula.ranked]
    version.standings.exclude(measure="mean_toxicity").delete()
    assert ranked_measures(version) == every_measure
    version.formula_version -= 1
    assert ranked_measures(version) == ["mean_toxicity"]
    version.provenance = Provenance.PUBLISHED
    assert ranked_measures(version) == every_measure, "figures of a paper have no formula of ours"
