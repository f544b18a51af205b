"""Failures: the one registry of error classes, which retries, alerts, counts, publication and pages read.

A failure of the entry (weights without finite likelihoods, a file that breaks its format, an error nobody foresaw)
counts attempts and ends. A failure of the board (storage, database, broker, scorer, memory, something that this host
lacks) ends no work: the work waits without limit, with growing pauses, until the board is fixed.
"""

import re
import sys
from dataclasses import dataclass

from django.conf import settings
from django.db.models import TextChoices
from django.db.utils import DatabaseError, DataError, IntegrityError, InterfaceError, InternalError, OperationalError
from django.db.utils import Error as DatabaseFailure

from leaderboard.models import Work
from leaderboard.storage import StorageAway
from scoring.artefacts import ArtefactError
from scoring.cage.limits import CageBroken, CageDied, CageError, CageOutOfMemory, CageTimeout, CageUnavailable
from scoring.generation import UnsupportedKind, UnsupportedRules
from scoring.language_models import (
    FailedSelfTest,
    Gated,
    HubUnavailable,
    ModelRefused,
    NoSuchRevision,
    NotFinite,
    NotOnHub,
    RevisionChanged,
)
from scoring.language_models.product_rates import SlowPrecision
from scoring.likelihood import NotApplicable
from scoring.scorers import LexiconError, ScorerState, ScorerUnavailable, UndeclaredLabel, UnknownScorer
from scoring.scorers.services import SERVICE_KEYS
from scoring.served import ServerRefused, ServerUnavailable, ServiceChanged

AGAIN = "Retry it; if it fails the same way, tell the people who run this board the number of the submission."
WAIT = "Nothing is wrong with the model. Retry it later."
OTHERS = "You cannot fix this: tell the people who run this board the number of the submission."
HIDDEN = "…"
# Absolute paths of two parts or more, but for addresses on the web and of this board; and what looks like a secret.
INNER = re.compile(r"\b(?!https?:)[a-z][a-z0-9+]*://\S+")  # a broker, a database, a file
PATHS = re.compile(r"(?<![\w/:.])(?!/submit/)(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'\":,;()\[\]]+){2,}[/\\]?")
CREDENTIALS = re.compile(r"(?<=://)[^\s/@]+@|\b(?:hf|sk|plumb|ghp|invitation)_[A-Za-z0-9]{8,}\b|(?<=Bearer )\S+")
PRIVATE = re.compile(
    r"\b(?:10|127|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}(?::\d+)?\b|\blocalhost(?::\d+)?\b"
)


class FailureKind(TextChoices):
    """The kind of a failure: a closed set to count by; the reason of work is free text."""

    SCORER = "scorer", "The scorer gave no scores"
    MODEL = "model", "The model cannot be run"
    SERVER = "server", "The completions server refused"
    VERSION = "version", "The metric version is closed, or of another scorer"
    FILES = "files", "A stored file is missing or damaged"
    STORAGE = "storage", "The storage cannot be read or written"
    MEMORY = "memory", "Memory ran out"
    PRECISION = "precision", "No worker is fast in the declared precision"
    DATABASE = "database", "The database or the broker did not answer"
    SYSTEM = "system", "The machine or the network failed"
    OTHER = "other", "An error nobody foresaw"


@dataclass(frozen=True)
class Advice:
    """What went wrong, and what its submitter can do about it; each one or two sentences."""

    what: str
    remedy: str


@dataclass(frozen=True)
class Failure(Advice):
    """How the board treats, counts and explains errors of some classes.

    errors: the classes, each with its subclasses but for those that another failure names; as text, `module.Class`,
    where the class is not imported for it. of_board: the board's, and no entry's. final: another attempt comes to the
    same, so none is made. of_one_file: the board's, and only the work that needs this very file waits for it.
    quotes_reason: the reason says what went wrong better than `what`.
    """

    kind: FailureKind
    errors: tuple[type[BaseException] | str, ...] = ()
    of_board: bool = False
    final: bool = False
    of_one_file: bool = False
    quotes_reason: bool = False


RETIRED = "ScorerRetired"  # the fault of work whose scorer is retired: it does not come back by itself
NOT_READ = "NotRead"  # the fault of a file that no worker could read
UNFORESEEN = Failure("Something unexpected went wrong.", AGAIN, FailureKind.OTHER)
CANCELLED = Advice("It was cancelled.", "Retry it, if you want it after all.")
SERVICES = "leaderboard.services"
DECLARED = (
    Failure(
        "The model's files are refused.",
        "Fix them on the hub as the reason says, and submit the new revision.",
        FailureKind.MODEL,
        (ModelRefused,),
        final=True,
    ),
    Failure(
        "The hub no longer has this model or revision, or has made it private.",
        "Make sure that it is public there, at the revision that you submitted, and retry it; or submit the new "
        "revision.",
        FailureKind.MODEL,
        (NotOnHub, NoSuchRevision),
        final=True,
    ),
    Failure(
        "The model's owner decides who may read it on the hub, and this board may not.",
        "Open the model to everyone, or ask the people who run this board to request access; then retry it.",
        FailureKind.MODEL,
        (Gated,),
        final=True,
    ),
    Failure(
        "The model gives some texts no finite likelihood.",
        "Look for NaN or infinity among its weights, and for activations beyond the range of float32; then submit the "
        "fixed revision.",
        FailureKind.MODEL,
        (NotFinite,),
        final=True,
        quotes_reason=True,
    ),
    Failure(
        "The model does not pass the self-test: what this board computes for it differs from what the model itself "
        "gives.",
        "None of its numbers is published. Submit another model, or tell the people who run this board: the "
        "architecture fails here, not your files.",
        FailureKind.MODEL,
        (FailedSelfTest,),
        final=True,
    ),
    Failure(
        "The files on the hub are not the ones that were pinned when you submitted the model.",
        "Submit the revision that is there now.",
        FailureKind.MODEL,
        (RevisionChanged,),
        final=True,
    ),
    Failure(
        "This metric cannot be measured for this model.",
        "Choose metrics that fit its kind; the reason says what does not fit.",
        FailureKind.MODEL,
        (NotApplicable,),
        final=True,
    ),
    Failure(
        "This metric needs a model that continues texts, and this one does not.",
        "Choose a metric of likelihoods for it, such as safety.",
        FailureKind.MODEL,
        (UnsupportedKind,),
        final=True,
    ),
    Failure(
        "The model takes longer than this board allows.",
        "Submit a smaller or faster model, or ask for more time.",
        FailureKind.MODEL,
        (f"{SERVICES}.leases.OutOfTime",),
        final=True,
    ),
    Failure(
        "Every worker that started it died.",
        "Submit a smaller model, or tell the people who run this board.",
        FailureKind.MODEL,
        (f"{SERVICES}.leases.WorkersDied",),
        final=True,
    ),
    Failure("The process that ran the model ended without a result.", AGAIN, FailureKind.MODEL, (CageError,)),
    Failure(
        "The process that ran the model died every time.",
        "Check that the files load with transformers and score a few sentences, as in `python -m scoring perplexity`.",
        FailureKind.MODEL,
        (CageDied,),
    ),
    Failure(
        "The model took longer than this board allows, or showed no progress.",
        "Check that it runs as fast as a model of its size should, as in `python -m scoring perplexity`; then submit "
        "it.",
        FailureKind.MODEL,
        (CageTimeout,),
    ),
    Failure("The process that ran the model returned no valid outputs.", AGAIN, FailureKind.MODEL, (CageBroken,)),
    Failure(
        "The model took more memory than this board's workers allow.",
        "Submit a smaller model, or ask for more memory.",
        FailureKind.MEMORY,
        (CageOutOfMemory,),
    ),
    Failure(
        "The server that runs the model refused the request.",
        "Check that it serves the model, then retry.",
        FailureKind.SERVER,
        (ServerRefused,),
        final=True,
    ),
    Failure(
        "This release reads answers of chats by other rules than the metric's protocol.",
        "Ask the people who run this board to use the release of the protocol, or to make a metric of today's.",
        FailureKind.VERSION,
        (UnsupportedRules,),
        final=True,
    ),
    Failure(
        "The run stopped before its spending limit.",
        "Ask the people who run this board to raise the limit, then retry: what was collected is kept.",
        FailureKind.SERVER,
        (f"{SERVICES}.spending.SpendingLimitReached",),
        final=True,
    ),
    Failure(
        "The server that runs the model says that another model answers than the one that was entered.",
        "What it gives now belongs to the entry's new revision: evaluate that.",
        FailureKind.SERVER,
        (ServiceChanged,),
        final=True,
    ),
    Failure(
        "The server that runs the model did not answer.",
        "Check that it runs and can be reached from this board, then retry.",
        FailureKind.SERVER,
        (ServerUnavailable,),
    ),
    Failure(
        "The metric has moved on to another version while this waited.",
        "Retry it: it is scored under the new version.",
        FailureKind.VERSION,
        (f"{SERVICES}.leases.ScorerChanged",),
        final=True,
    ),
    Failure(
        "The scorer of this metric is retired.",
        "Choose another metric, or ask the people who run this board.",
        FailureKind.SCORER,
        (RETIRED,),
        final=True,
    ),
    Failure(
        "The scorer cannot be compared with this successor.",
        "Do what the reason says, then compare them again.",
        FailureKind.SCORER,
        (f"{SERVICES}.succession_texts.NothingToCompare",),
        final=True,
        quotes_reason=True,
    ),
    Failure("The file could not be read.", AGAIN, FailureKind.OTHER, (NOT_READ,)),
    Failure(
        "The board's database refused the data.",
        AGAIN,
        FailureKind.DATABASE,
        (DatabaseError, IntegrityError, DataError),
    ),
    Failure("The scorer of this metric is unavailable.", WAIT, FailureKind.SCORER, (ScorerUnavailable,), of_board=True),
    Failure(
        "A metric that you chose cannot be evaluated now.",
        WAIT,
        FailureKind.SCORER,
        (f"{SERVICES}.evaluate.MetricUnavailable",),
        of_board=True,
    ),
    Failure(
        "No worker of this board is fast in the precision that is declared.",
        "It waits for a worker that is. To have numbers now, submit the model in float32: an entry of its own.",
        FailureKind.PRECISION,
        (SlowPrecision,),
        of_board=True,
        quotes_reason=True,
    ),
    Failure("The lexicon of this metric cannot be read.", OTHERS, FailureKind.SCORER, (LexiconError,), of_board=True),
    Failure(
        "Nobody has declared what a label of this metric's scorer means.",
        OTHERS,
        FailureKind.SCORER,
        (UndeclaredLabel,),
        of_board=True,
    ),
    Failure("This board lacks the scorer of this metric.", OTHERS, FailureKind.SCORER, (UnknownScorer,), of_board=True),
    Failure(
        "A file of this board cannot be read.",
        OTHERS,
        FailureKind.FILES,
        (ArtefactError,),
        of_board=True,
        of_one_file=True,
    ),
    Failure(
        "A file of this board is missing or damaged.",
        OTHERS,
        FailureKind.FILES,
        (f"{SERVICES}.artefacts.ArtefactLost",),
        of_board=True,
        of_one_file=True,
    ),
    Failure(
        "The metric's control set cannot be checked.",
        OTHERS,
        FailureKind.FILES,
        (f"{SERVICES}.checks.CheckImpossible",),
        of_board=True,
        of_one_file=True,
    ),
    Failure(
        "A file of this board is missing.",
        OTHERS,
        FailureKind.FILES,
        (FileNotFoundError,),
        of_board=True,
        of_one_file=True,
    ),
    Failure(
        "The storage of this board does not answer.",
        WAIT,
        FailureKind.STORAGE,
        (StorageAway,),
        of_board=True,
    ),
    Failure(
        "A file of this board could not be read or written.",
        WAIT,
        FailureKind.STORAGE,
        (OSError, PermissionError),
        of_board=True,
    ),
    Failure(
        "A worker of this board ran out of memory.",
        WAIT,
        FailureKind.MEMORY,
        (MemoryError, "torch.OutOfMemoryError"),
        of_board=True,
    ),
    Failure(
        "The board's database did not answer.",
        WAIT,
        FailureKind.DATABASE,
        (OperationalError, InterfaceError, InternalError, "kombu.exceptions.OperationalError"),
        of_board=True,
    ),
    Failure(
        "This board could not shut the model in safely, so it was not run.",
        OTHERS,
        FailureKind.SYSTEM,
        (CageUnavailable,),
        of_board=True,
    ),
    Failure("The hub did not answer.", WAIT, FailureKind.SYSTEM, (HubUnavailable,), of_board=True),
    Failure("A worker of this board lacks a library.", OTHERS, FailureKind.SYSTEM, (ImportError,), of_board=True),
    Failure(
        "A connection broke.",
        WAIT,
        FailureKind.SYSTEM,
        (ConnectionError, "httpx.ConnectError", "httpx.ReadError"),
        of_board=True,
    ),
    Failure(
        "Another machine did not answer in time.",
        WAIT,
        FailureKind.SYSTEM,
        (TimeoutError, "httpx.TimeoutException"),
        of_board=True,
    ),
)


def name_of_error(error: type[BaseException] | str) -> str:
    """The value of `Work.fault` for a class of errors."""
    return (error if isinstance(error, str) else error.__name__).rpartition(".")[2]


FAILURES = {name_of_error(error): failure for failure in DECLARED for error in failure.errors}  # by fault
FAULTS = {kind: tuple(name for name, failure in FAILURES.items() if failure.kind == kind) for kind in FailureKind}
BOARD_FAULTS = tuple(name for name, failure in FAILURES.items() if failure.of_board)


def find_class(error: type[BaseException] | str) -> type[BaseException] | None:
    """A class that a failure names; None where its module is not imported, so that no such error can occur."""
    if not isinstance(error, str):
        return error
    module, _, name = error.rpartition(".")
    loaded_class: type[BaseException] | None = getattr(sys.modules.get(module), name, None)
    return loaded_class


def fault_of(error: BaseException) -> str:
    """The value of `Work.fault` for an error: the nearest of its classes that is declared, else its own name."""
    if isinstance(error, ScorerUnavailable) and error.state is ScorerState.RETIRED:
        return RETIRED
    if is_connection_lost(error):
        return name_of_error(OperationalError)
    faults_by_class = {
        find_class(error_class): name_of_error(error_class) for failure in DECLARED for error_class in failure.errors
    }
    ancestors = type(error).__mro__
    return next(
        (faults_by_class[ancestor] for ancestor in ancestors if ancestor in faults_by_class), ancestors[0].__name__
    )


def is_connection_lost(error: BaseException) -> bool:
    """Whether the database went away in the middle of an answer: then psycopg2 gives its general error, and no code."""
    return type(error) is DatabaseError and getattr(error.__cause__, "pgcode", "") is None


def is_database_away(error: BaseException) -> bool:
    """Whether the error says that the database does not answer, and not that it refuses something."""
    return isinstance(error, DatabaseFailure) and failure_of(error).of_board


def failure_of(error: BaseException) -> Failure:
    """How an error is treated."""
    return failure_called(fault_of(error))


def failure_called(fault: str) -> Failure:
    """The failure with this fault; an undeclared one is treated as the entry's."""
    return FAILURES.get(fault, UNFORESEEN)


def explain(work: Work) -> Advice:
    """What the reason of `work` means to its submitter."""
    if work.state == Work.State.CANCELLED:
        return CANCELLED
    failure = failure_called(work.fault)
    return Advice(f"{redact(work.reason)}.", failure.remedy) if failure.quotes_reason else failure


def redact(reason: str) -> str:
    """A technical reason without paths, secrets and addresses of this installation, as submitters may read it."""
    keys = (settings.HUB_TOKEN, settings.COMPLETIONS_API_KEY, settings.SECRET_KEY)
    service_keys = (getattr(settings, name) for name in SERVICE_KEYS)
    for secret in (*keys, *service_keys, *settings.COMPLETIONS_API_KEYS.values()):
        if secret:
            reason = reason.replace(secret, HIDDEN)
    for pattern in (INNER, CREDENTIALS, PATHS, PRIVATE):
        reason = pattern.sub(HIDDEN, reason)
    return reason
