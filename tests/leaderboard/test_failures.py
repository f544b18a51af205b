"""Each class of failure is treated, counted and told in one way."""

from dataclasses import asdict

import httpx
import kombu.exceptions
import psycopg2
import pytest
import torch
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError

from leaderboard.models import Run, Work
from leaderboard.services import failures
from leaderboard.services.artefacts import ArtefactLost
from leaderboard.services.evaluate import MetricUnavailable
from leaderboard.services.failures import (
    BOARD_FAULTS,
    DECLARED,
    FAILURES,
    UNFORESEEN,
    FailureKind,
    explain,
    failure_called,
    failure_of,
    fault_of,
    is_database_away,
    name_of_error,
)
from leaderboard.services.folders import HostLacks
from leaderboard.services.leases import OutOfTime, ScorerChanged, WorkersDied
from leaderboard.services.spending import SpendingLimitReached
from leaderboard.storage import StorageAway
from scoring.cage.limits import CageError, CageOutOfMemory, CageUnavailable
from scoring.generation import UnsupportedRules
from scoring.language_models import Gated, HubBusy, ModelRefused, NotFinite, NotOnHub, RevisionChanged
from scoring.scorers import ScorerState, ScorerUnavailable
from scoring.served import ServerRefused, ServerUnavailable
from tests.approved_text import compare_with_approved

RETRIED, FINAL, WAITS = "retried", "final", "waits for the board"


@pytest.mark.parametrize(
    ("error", "treatment", "kind", "words"),
    [
        (ModelRefused("pickles"), FINAL, "model", "files are refused"),
        (Gated("ask its owner"), FINAL, "model", "decides who may read it"),
        (NotOnHub("gone"), FINAL, "model", "no longer has this model or revision"),
        (RevisionChanged("moved"), FINAL, "model", "not the ones that were pinned"),
        (OutOfTime("too long"), FINAL, "model", "takes longer"),
        (WorkersDied("all of them"), FINAL, "model", "Every worker that started it died"),
        (CageError("nothing"), RETRIED, "model", "ended without a result"),
        (CageOutOfMemory("8 GB"), RETRIED, "memory", "took more memory"),
        (CageUnavailable("no landlock"), WAITS, "system", "could not shut the model in safely"),
        (ServerRefused("wrong key"), FINAL, "server", "refused the request"),
        (ServerUnavailable("no answer"), RETRIED, "server", "server that runs the model did not answer"),
        (SpendingLimitReached("enough"), FINAL, "server", "stopped before its spending limit"),
        (UnsupportedRules("other ones"), FINAL, "version", "reads answers of chats by other rules"),
        (ScorerChanged("closed"), FINAL, "version", "moved on to another version"),
        (ScorerUnavailable("down"), WAITS, "scorer", "is unavailable"),
        (ScorerUnavailable("ended", ScorerState.RETIRED), FINAL, "scorer", "is retired"),
        (MetricUnavailable("no texts"), WAITS, "scorer", "cannot be evaluated now"),
        (HubBusy("slow down", 9.0), WAITS, "system", "The hub did not answer"),
        (HostLacks("no weights"), WAITS, "storage", "could not be read or written"),
        (StorageAway("unmounted"), WAITS, "storage", "does not answer"),
        (PermissionError("denied"), WAITS, "storage", "could not be read or written"),
        (FileNotFoundError("gone"), WAITS, "files", "missing"),
        (MemoryError(), WAITS, "memory", "ran out of memory"),
        (torch.OutOfMemoryError("CUDA"), WAITS, "memory", "ran out of memory"),
        (OperationalError("away"), WAITS, "database", "database did not answer"),
        (kombu.exceptions.OperationalError("away"), WAITS, "database", "did not answer"),
        (IntegrityError("twice"), RETRIED, "database", "refused the data"),
        (ImportError("no lightgbm"), WAITS, "system", "lacks a library"),
        (ConnectionResetError("by peer"), WAITS, "system", "connection broke"),
        (httpx.ConnectError("refused"), WAITS, "system", "connection broke"),
        (TimeoutError("late"), WAITS, "system", "in time"),
        (httpx.ReadTimeout("late"), WAITS, "system", "in time"),
        (ValueError("anything"), RETRIED, "other", "unexpected"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_failure_is_treated_counted_and_told_as_its_class_says(error, treatment, kind, words):
    failure = failure_of(error)
    assert (failure.of_board, failure.final) == (treatment == WAITS, treatment == FINAL)
    assert failure.kind == kind
    explanation = explain(Run(state=Work.State.FAILED, fault=fault_of(error), reason=str(error)))
    assert words in explanation.what
    assert explanation.remedy.endswith(".")


OF_ENTRIES = {
    *("ModelRefused", "NotOnHub", "NoSuchRevision", "Gated", "NotFinite", "FailedSelfTest", "RevisionChanged"),
    *("NotApplicable", "UnsupportedKind", "UnsupportedRules", "OutOfTime", "WorkersDied", "SpendingLimitReached"),
    *("CageError", "CageDied", "CageTimeout", "CageBroken", "CageOutOfMemory", "ServerRefused", "ServerUnavailable"),
    *("ServiceChanged", "ScorerChanged", "ScorerRetired", "NothingToCompare", "NotRead"),
    *("DatabaseError", "IntegrityError", "DataError"),
}


def test_work_ends_by_these_failures_of_an_entry_and_waits_where_the_board_fails():
    assert set(FAILURES) - set(BOARD_FAULTS) == OF_ENTRIES
    assert {name for name, failure in FAILURES.items() if not failure.of_board} == OF_ENTRIES


def test_what_failures_say_is_what_was_approved():
    lines = []
    for failure in (UNFORESEEN, *DECLARED):
        values = {**asdict(failure), "errors": [name_of_error(error) for error in failure.errors]}
        lines += [f"{name}: {value}" for name, value in values.items() if value] + [""]
    compare_with_approved("failures.txt", "\n".join(lines))


def test_a_subclass_is_treated_as_the_nearest_class_that_is_declared():
    unknown_refusal = type("SomethingNew", (ModelRefused,), {})("new")
    assert failure_of(unknown_refusal) == failure_of(ModelRefused("old"))
    assert fault_of(unknown_refusal) == "ModelRefused"
    assert fault_of(type("SomethingElse", (Exception,), {})("new")) == "SomethingElse"
    assert failure_called("SomethingElse") is UNFORESEEN


def test_a_connection_that_breaks_in_the_middle_of_an_answer_is_no_refusal_of_the_database():
    lost, refused = DatabaseError("server closed the connection unexpectedly"), DatabaseError("refused")
    lost.__cause__ = psycopg2.DatabaseError(str(lost))  # without a code: nobody was left to give one
    assert failure_of(lost).of_board
    assert not failure_of(refused).of_board
    assert [is_database_away(error) for error in (lost, OperationalError("away"), InterfaceError("closed"))] == 3 * [
        True
    ]
    broker_away = kombu.exceptions.OperationalError("away")
    assert not any(is_database_away(error) for error in (refused, IntegrityError("twice"), broker_away))


def test_a_model_without_finite_likelihoods_is_told_by_its_reason():
    run = Run(state=Work.State.FAILED, fault="NotFinite", reason="12 of 40 texts have none")
    assert fault_of(NotFinite("x")) == "NotFinite"
    assert explain(run).what == "12 of 40 texts have none."


def test_every_class_that_is_named_exists_and_belongs_to_one_failure():
    import leaderboard.tasks  # noqa: F401

    names = [failures.name_of_error(error) for failure in DECLARED for error in failure.errors]
    assert len(FAILURES) == len(set(names))
    classes = [failures.find_class(error) for failure in DECLARED for error in failure.errors if error not in MARKS]
    assert None not in classes
    assert len(classes) == len(set(classes))
    assert ArtefactLost in classes


MARKS = (failures.RETIRED, failures.NOT_READ)  # of what is no class


def test_what_is_told_never_says_that_a_declared_failure_was_not_foreseen():
    assert not [name for name, failure in FAILURES.items() if failure.what == UNFORESEEN.what]
    assert {failure.kind for failure in DECLARED} == set(FailureKind)
