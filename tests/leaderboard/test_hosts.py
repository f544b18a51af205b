"""Several hosts of one board: what each can do, who takes which work, and whose drift is believed."""

import shutil
from datetime import timedelta
from io import StringIO
from unittest.mock import Mock

import pytest
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import (
    AuditEvent,
    ControlCheck,
    FolderFile,
    Incident,
    LanguageModel,
    Metric,
    MetricVersion,
    Pulse,
    Release,
    Rescoring,
    Run,
    Scoring,
    StoredFolder,
    Work,
    Worker,
)
from leaderboard.models.clock import from_now
from leaderboard.operations.alerts import look
from leaderboard.services import (
    abilities,
    artefacts,
    build,
    cages,
    checks,
    control,
    folders,
    hosts,
    leases,
    queue,
    release,
    scorers,
    signs_of_life,
)
from leaderboard.services.checks import due_trigger, is_braked, perform, request_check
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.folders import HostLacks, fetch_folder, store_folder
from leaderboard.services.policies import set_policy
from leaderboard.services.seed import keep_local_folders
from leaderboard.tasks import score_one, watch
from scoring.cage import CageUnavailable
from scoring.refusals import Refused
from scoring.scorers import LexiconError
from tests.leaderboard.living import SLUG, Stage, drain, drift, entrant, hurry, small_metric, standing_in, submit

pytestmark = pytest.mark.django_db

Verdict = ControlCheck.Verdict
STANDIN = "scorer standin"


@pytest.fixture
def stage() -> Stage:
    with standing_in() as found:
        yield found


@pytest.fixture
def living(stage, tmp_path):
    """A board with two entries, scored by a scorer that the stage can change."""
    metric = small_metric(tmp_path)
    for number in (1, 2):
        assert submit(entrant(number, metric), metric).state == Work.State.DONE
    return metric


@pytest.fixture
def two_hosts(settings, monkeypatch):
    """Workers of the hosts `alpha` and `beta`; what follows is done by alpha's until `become` says otherwise."""
    for host in ("alpha", "beta"):
        settings.HOST = host
        signs_of_life.beat(f"default@{host}", ["default", "gpu"])

    def become(host: str) -> None:
        settings.HOST = host
        scorers.look_again()
        for module in ("abilities", "leases", "score"):
            monkeypatch.setattr(f"leaderboard.services.{module}.worker_name", lambda: f"default@{host}")

    become("alpha")
    return become


def lexicon_in(folder, words: str):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "words.txt").write_text(words)
    return folder


def move_to_new_host(settings, tmp_path) -> None:
    """Go on as a process of a host that shares the database and the storage, and nothing else."""
    settings.VAR = tmp_path / "new-host"
    settings.SCORERS = settings.VAR / "scorers"
    settings.VAR.mkdir()
    scorers.look_again()


# Files that every host needs


def test_an_imported_lexicon_is_there_on_a_host_that_has_no_copy_and_wins_over_an_older_one(settings, tmp_path):
    settings.SCORERS = tmp_path / "scorers"
    lexicon, new = scorers.import_lexicon("own", lexicon_in(tmp_path / "given", "rain\nsea\n"))
    assert new
    move_to_new_host(settings, tmp_path)
    lexicon_in(settings.SCORERS / "lexicon" / "own", "older\n")
    assert scorers.problem_with("lexicon:own") is None
    assert scorers.scorer_for("lexicon:own", "1").fingerprint() == lexicon.fingerprint


def test_a_copy_that_was_changed_on_a_host_is_fetched_anew(settings, tmp_path):
    store_folder("scorer lexicon:own", lexicon_in(tmp_path / "given", "rain\n"))
    (copy,) = fetch_folder("scorer lexicon:own").iterdir()
    assert copy.read_text() == "rain\n"
    copy.write_text("rani\n")
    assert (fetch_folder("scorer lexicon:own") / "words.txt").read_text() == "rain\n"


def test_what_a_disk_gives_back_otherwise_than_written_is_no_file_of_a_scorer(settings, tmp_path, monkeypatch):
    store_folder("scorer lexicon:own", lexicon_in(tmp_path / "given", "a word that this disk forgets\n"))
    monkeypatch.setattr(artefacts, "copy_to", lambda _artefact, place: place.write_text("rani\n"))
    with pytest.raises(OSError, match="is not what was read back"):
        fetch_folder("scorer lexicon:own")


def test_a_damaged_file_of_the_storage_is_no_file_of_a_scorer(settings, tmp_path):
    store_folder("scorer lexicon:own", lexicon_in(tmp_path / "given", "a word of this test alone\n"))
    stored = FolderFile.objects.get().artefact
    with open(default_storage.path(stored.storage_name), "r+b") as file:
        file.write(b"X")
    with pytest.raises(artefacts.ArtefactLost):
        fetch_folder("scorer lexicon:own")
    assert not list((settings.VAR / "folders").glob(StoredFolder.objects.get().sha256))


def test_files_of_a_stored_folder_are_not_for_visitors(client, tmp_path):
    store_folder("scorer lexicon:own", lexicon_in(tmp_path / "given", "rain\n"))
    assert client.get(f"/artefacts/{FolderFile.objects.get().artefact.sha256}.parquet").status_code == 404


def test_seed_keeps_what_lies_on_its_host_once(settings, tmp_path, db):
    settings.SCORERS = tmp_path / "scorers"
    lexicon_in(settings.SCORERS / "lexicon" / "own", "rain\n")
    small_metric(tmp_path, "of-own", "lexicon:own", "lexicon_frequency")
    assert [folder.name for folder in keep_local_folders()] == ["scorer lexicon:own"]
    assert keep_local_folders() == []


def test_an_operators_model_is_fetched_by_a_host_without_its_folder(settings, tmp_path):
    from leaderboard.services.language_models import add_model
    from scoring.language_models import BUNDLED
    from scoring.language_models.placing import place

    original = tmp_path / "model"
    shutil.copytree(BUNDLED / "plumb-gpt2-l2-h128", original)
    model, _ = add_model(str(original))
    shutil.rmtree(original)
    move_to_new_host(settings, tmp_path)
    fetched = fetch_folder(folders.name_of_model(model))
    assert place("folder", str(fetched), model.revision) == fetched


# Who can do what


@pytest.mark.slow
def test_a_worker_notes_host_code_memory_disk_libraries_and_scorers(two_hosts, living, monkeypatch):
    hosts.note_abilities("default@alpha")
    row = Worker.objects.get(name="default@alpha")
    assert (row.host, row.code, row.refusal) == ("alpha", release.code_here(), "")
    assert row.memory > 0 < row.disk_free
    assert {"device", "torch"} <= set(row.environment)
    assert row.abilities[STANDIN]["fingerprint"] == living.current_version().scorer_fingerprint


@pytest.mark.slow
def test_work_that_a_host_cannot_do_is_given_back_and_done_by_the_other(two_hosts, settings, tmp_path):
    settings.SCORERS = tmp_path / "scorers"
    lexicon_in(settings.SCORERS / "lexicon" / "own", "rain\nsea\n")
    metric = small_metric(tmp_path, "of-own", "lexicon:own", "lexicon_frequency")
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    there, settings.SCORERS = settings.SCORERS, tmp_path / "nothing"
    assert queue.do_fairest(Scoring, score_one)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.attempts, scoring.fault) == (Work.State.QUEUED, 0, "")
    assert scoring.reason.startswith("default@alpha gave it back (there is no lexicon 'own'")
    hurry()
    assert not queue.do_fairest(Scoring, score_one)  # it is left to the other one now
    two_hosts("beta")
    settings.SCORERS = there
    assert queue.do_fairest(Scoring, score_one)
    scoring.refresh_from_db()
    assert "gave it back" not in scoring.reason


@pytest.mark.slow
def test_a_host_alone_keeps_work_that_it_cannot_do_and_waits(two_hosts, settings, tmp_path):
    Worker.objects.filter(host="beta").delete()
    lexicon = settings.SCORERS = tmp_path / "scorers"
    lexicon_in(lexicon / "lexicon" / "own", "rain\n")
    metric = small_metric(tmp_path, "of-own", "lexicon:own", "lexicon_frequency")
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    settings.SCORERS = tmp_path / "nothing"
    for _ in range(7):
        hurry()
        assert queue.do_fairest(Scoring, score_one)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.fault) == (Work.State.QUEUED, "LexiconError")


def test_a_model_too_large_for_one_host_is_left_to_the_larger(two_hosts, metric, models):
    model = next(iter(models.values()))
    LanguageModel.objects.filter(pk=model.pk).update(parameters=4_000_000_000)
    Run.objects.create(model=model, protocol=metric.protocol)
    Worker.objects.filter(host="alpha").update(memory=8 * 10**9)
    Worker.objects.filter(host="beta").update(memory=64 * 10**9)
    assert not queue.own_work(Run).exists()
    two_hosts("beta")
    assert queue.own_work(Run).exists()
    two_hosts("alpha")
    Worker.objects.filter(host="beta").delete()
    assert queue.own_work(Run).exists()


def test_what_a_host_lacks_is_tried_again_after_a_while(two_hosts):
    abilities.note_ability("default@alpha", STANDIN, problem="it was not there")
    row = Worker.objects.get(name="default@alpha")
    assert abilities.recent_problem(row, STANDIN) == "it was not there"
    row.abilities[STANDIN]["at"] = (timezone.now() - abilities.BELIEVED_FOR - timedelta(seconds=1)).isoformat()
    assert abilities.recent_problem(row, STANDIN) == ""


def test_a_model_that_is_on_another_host_alone_is_lacked_here(two_hosts, models):
    from leaderboard.services.downloads import require_files

    with pytest.raises(HostLacks, match="not in the cache of this host"):
        require_files(next(iter(models.values())))


@pytest.mark.slow
def test_a_worker_of_other_code_takes_no_work_and_names_both(two_hosts, living):
    scoring = request_evaluation(entrant(3, living), living, send=False)
    Release.objects.create(code="9.9.9+0123456789ab")
    assert not queue.do_fairest(Scoring, score_one)
    with leases.claim(scoring) as lease:
        assert lease is None
    signs_of_life.beat("default@alpha", ["default"])
    refusal = Worker.objects.get(name="default@alpha").refusal
    assert release.code_here() in refusal
    assert "9.9.9+0123456789ab" in refusal
    assert Worker.objects.get(name="default@alpha") not in abilities.other_workers("default")
    watch()
    assert not Pulse.objects.filter(name="watch").exists(), "what concerns the whole board is for its own release"
    Release.objects.all().delete()
    release.note_release()
    assert queue.do_fairest(Scoring, score_one)
    watch()
    assert Pulse.objects.filter(name="watch").exists()


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("name", "version", "is_refused"),
    [
        ("torch", "2.4.0", True),
        ("python", "3.99", True),
        ("torch", "2.13.0+cu130", False),  # the same version, built for a GPU
        ("torch", None, False),  # it moves no number here, and work that needs it is for other hosts
    ],
)
def test_a_worker_with_another_library_than_the_board_pins_takes_no_work_and_names_it(
    two_hosts, living, monkeypatch, name, version, is_refused, caplog
):
    Release.objects.all().delete()
    monkeypatch.setattr(build, "environment_pinned", lambda: {"python": "3.11", "torch": "2.13.0"})
    monkeypatch.setattr(release, "environment_pinned", build.environment_pinned)
    release.note_release()
    libraries = {"torch": "2.13.0", name: version} if version else {}
    monkeypatch.setattr(build, "installed_libraries", lambda: {k: v for k, v in libraries.items() if k != "python"})
    monkeypatch.setattr(build, "_python", lambda: libraries.get("python", "3.11"))
    monkeypatch.setattr(release, "environment_here", build.environment_here.__wrapped__)
    request_evaluation(entrant(3, living), living, send=False)
    assert queue.do_fairest(Scoring, score_one) is not is_refused
    signs_of_life.beat("default@alpha", ["default"])
    refusal = Worker.objects.get(name="default@alpha").refusal
    look()
    incidents = Incident.objects.filter(kind="hosts", resolved_at=None)
    if is_refused:
        pinned = release.Release.objects.get().environment[name]
        assert f"this worker has {name} {version} where the board has {pinned} since" in refusal
        assert "requirements.lock" in refusal
        assert refusal in caplog.text
        assert refusal in incidents.get().summary
    else:
        assert refusal == ""
        assert not incidents.exists()


def test_the_board_pins_what_its_lock_says_and_runs_it_here():
    pins = build.environment_pinned()
    assert set(pins) == {"python", *build.LIBRARIES}
    assert build.environment_here() == pins


def test_of_versions_that_a_lock_pins_for_different_pythons_the_one_for_this_python_counts():
    lines = ["numpy==2.4.6 ; python_full_version < '3.0' \\", "numpy==2.5.5 ; python_full_version >= '3.0' \\"]
    for order in (lines, lines[::-1]):
        lock = "\n".join(["# made", *order, "    --hash=sha256:00==", "    # via scipy", "torch==2.13.0+cpu"])
        assert build.read_pins(lock) == {"numpy": "2.5.5", "torch": "2.13.0+cpu"}


@pytest.mark.slow
def test_a_worker_that_fell_silent_is_named_as_away_until_it_is_back(two_hosts, client, admin_user):
    beta = Worker.objects.filter(host="beta")
    beta.update(beat_at=from_now(-90))
    look()
    incidents = Incident.objects.filter(key="away:default@beta", resolved_at=None)
    assert "default@beta has given no sign of life since" in incidents.get().summary
    client.force_login(admin_user)
    page = client.get(reverse("operate_workers")).content.decode()
    assert "default@beta is away" in page
    assert "default@alpha is away" not in page
    signs_of_life.beat("default@beta", ["default"])
    look()
    assert not incidents.exists()
    assert "is away" not in client.get(reverse("operate_workers")).content.decode()


# Whose drift is believed


def check_on(metric, become, *names: str) -> ControlCheck:
    check = request_check(metric, ControlCheck.Trigger.SCHEDULE, send=False)
    for name in names:
        become(name)
        hurry()
        perform(check)
        check.refresh_from_db()
    return check


@pytest.mark.slow
def test_a_drift_that_both_hosts_find_opens_a_version(two_hosts, living, stage):
    drift(stage)
    check = check_on(living, two_hosts, "alpha")
    assert (check.state, check.first_host) == (Work.State.QUEUED, "alpha")
    assert list(ControlCheck.objects.exclude(first_host="")) == [check]
    assert not Rescoring.objects.exists()
    perform(check)  # alpha again: it is not asked twice
    check.refresh_from_db()
    assert check.state == Work.State.QUEUED
    two_hosts("beta")
    hurry()
    perform(check)
    check.refresh_from_db()
    assert (check.verdict, check.host) == (Verdict.DRIFTED, "beta")
    assert Rescoring.objects.count() == 1


def test_a_host_that_finds_no_drift_the_second_time_disagrees_with_nobody(two_hosts, living):
    check = check_on(living, two_hosts, "alpha")
    ControlCheck.objects.filter(pk=check.pk).update(first_host="alpha", first_finding="it moved")
    look()
    assert not Incident.objects.filter(key__startswith="disagree:").exists()
    ControlCheck.objects.filter(pk=check.pk).update(host="beta")
    look()
    assert Incident.objects.filter(key=f"disagree:{SLUG}:alpha").exists()


@pytest.mark.slow
def test_two_hosts_that_disagree_open_nothing_and_the_drifting_one_gets_no_work(two_hosts, living, stage):
    drift(stage)
    check = check_on(living, two_hosts, "alpha")
    drift(stage, 0.0, "first")  # as beta has it
    two_hosts("beta")
    hurry()
    perform(check)
    check.refresh_from_db()
    assert (check.verdict, check.first_host, check.host) == (Verdict.STABLE, "alpha", "beta")
    assert MetricVersion.objects.filter(metric=living).count() == 1
    assert "beta does not see" in abilities.recent_problem(Worker.objects.get(name="default@alpha"), STANDIN)
    assert abilities.recent_problem(Worker.objects.get(name="default@beta"), STANDIN) == ""
    assert AuditEvent.objects.get(verb="find disagreement").detail["check"] == check.pk
    incidents = Incident.objects.filter(key=f"disagree:{SLUG}:alpha", resolved_at=None)
    look()
    assert "Compare the two hosts" in incidents.get().summary
    elsewhere = Metric.objects.get(pk=living.pk)
    elsewhere.pk, elsewhere.slug = None, "elsewhere"
    elsewhere.save(force_insert=True)
    ControlCheck.objects.create(
        metric=elsewhere,
        trigger=check.trigger,
        state=check.state,
        verdict=check.verdict,
        host="alpha",
        control_set=check.control_set,
        artefact=check.artefact,
        finished_at=from_now(60),
    )
    look()
    assert incidents.exists(), "alpha agrees about another metric"
    request_evaluation(entrant(3, living), living, send=False)
    assert queue.own_work(Scoring).exists()
    two_hosts("alpha")
    assert not queue.own_work(Scoring).exists()


@pytest.mark.slow
def test_a_drift_is_believed_of_one_host_where_the_other_is_gone(two_hosts, living, stage):
    drift(stage)
    check = check_on(living, two_hosts, "alpha")
    Worker.objects.filter(host="beta").update(beat_at=timezone.now() - timedelta(minutes=5))
    hurry()
    perform(check)
    check.refresh_from_db()
    assert check.verdict == Verdict.DRIFTED


@pytest.mark.slow
def test_hosts_with_other_libraries_are_each_checked_once(two_hosts, living, monkeypatch):
    usual = checks.instrument_environment()

    def libraries(torch: str) -> None:
        for module in (checks, control):
            monkeypatch.setattr(module, "instrument_environment", lambda: usual | {"torch": torch})

    assert due_trigger(living) is None
    two_hosts("beta")
    libraries("other")
    assert due_trigger(living) == ControlCheck.Trigger.UPGRADE
    Worker.objects.filter(host="beta").update(environment=usual | {"torch": "other"})
    check = request_check(living, ControlCheck.Trigger.UPGRADE, send=False)
    two_hosts("alpha")
    libraries(usual["torch"])
    perform(check)
    check.refresh_from_db()
    assert check.state == Work.State.QUEUED  # it is about beta
    two_hosts("beta")
    libraries("other")
    hurry()
    perform(check)
    check.refresh_from_db()
    assert (check.state, check.host) == (Work.State.DONE, "beta")
    assert due_trigger(living) is None
    two_hosts("alpha")
    libraries(usual["torch"])
    assert due_trigger(living) is None


@pytest.mark.slow
@pytest.mark.parametrize("trigger", [ControlCheck.Trigger.UPGRADE, ControlCheck.Trigger.SCHEDULE])
def test_a_check_that_is_not_about_the_libraries_of_another_host_is_made_by_whichever_comes(two_hosts, living, trigger):
    Worker.objects.update(environment=checks.instrument_environment())
    check = request_check(living, trigger, send=False)
    perform(check)
    check.refresh_from_db()
    assert (check.state, check.host) == (Work.State.DONE, "alpha")


# The brake


def drift_once_more(metric, stage, number: int) -> ControlCheck:
    drift(stage, 0.4 * number, f"drift {number}")
    scorers.look_again()
    check = request_check(metric, ControlCheck.Trigger.SCHEDULE, send=False)
    perform(check)
    check.refresh_from_db()
    return check


@pytest.mark.slow
def test_the_second_drift_within_a_day_opens_nothing_until_an_operator_rescores(living, stage):
    assert drift_once_more(living, stage, 1).verdict == Verdict.DRIFTED
    drain()
    assert living.current_version().number == 2
    assert drift_once_more(living, stage, 2).verdict == Verdict.DRIFTED
    assert not Rescoring.objects.active().exists()
    assert is_braked(living.current_version().control_set)
    assert drift_once_more(living, stage, 3).verdict == Verdict.DRIFTED
    assert living.versions.count() == 2
    waits = request_evaluation(entrant(3, living), living, send=False)
    score_one(waits.pk)
    waits.refresh_from_db()
    assert waits.state == Work.State.QUEUED
    assert f"manage.py rescore {SLUG}" in waits.reason
    call_command("rescore", SLUG, "--reason", "the new scorer is meant", stdout=StringIO())
    drain()
    assert living.current_version().number == 3
    assert living.current_version().standings.filter(model__slug="entrant-3").exists()


@pytest.mark.slow
def test_the_brake_is_a_policy(living, stage):
    with pytest.raises(Refused, match="brake_after"):
        set_policy(living, {"brake_after": -1}, "for a test")
    set_policy(living, {"brake_after": 0}, "for a test")
    living.refresh_from_db()
    for number in (1, 2, 3):
        assert drift_once_more(living, stage, number).verdict == Verdict.DRIFTED
        drain()
    assert living.current_version().number == 4


def test_a_lexicon_that_nobody_has_is_an_error_of_the_scorer(settings, tmp_path):
    settings.SCORERS = tmp_path
    with pytest.raises(LexiconError, match="there is no lexicon 'own'"):
        scorers.scorer_for("lexicon:own", "1")


@pytest.mark.parametrize("is_ending", [False, True])
def test_a_worker_notes_that_its_cages_do_not_open_unless_it_is_ending(is_ending, monkeypatch, caplog):
    def refuse(_limits):
        raise CageUnavailable("the process that cages come from did not start")

    monkeypatch.setattr(cages.cage, "open_cage", refuse)
    monkeypatch.setattr(cages, "connection", Mock())  # a thread's own
    if is_ending:
        leases.stop_requested.set()
    cages.note_protections("gpu@alpha")
    assert Worker.objects.filter(name="gpu@alpha").exists() is not is_ending
    assert ("strangers' models are not shut in whole" in caplog.text) is not is_ending
