"""What fails, and whose fault it is: the one declaration that retries, alerts, counts and publication read.

A failure of the entry (weights without finite likelihoods, a file that breaks its format, an error nobody foresaw)
counts attempts and ends. A failure of the board (storage, database, broker, scorer, memory, something that this host
lacks) ends no work: it waits without limit, with growing pauses, until the board is mended.
"""

from dataclasses import dataclass

from django.db.models import TextChoices

from scoring.scorers import ScorerState, ScorerUnavailable


class FailureKind(TextChoices):
    """What kind of thing a failure is: a closed set, for counting, where the reason of work is free text."""

    SCORER = "scorer", "The scorer gave no scores"
    MODEL = "model", "The model cannot be run"
    SERVER = "server", "The completions server refused"
    VERSION = "version", "The metric version is closed, or of another scorer"
    FILES = "files", "A stored file is missing or damaged"
    STORAGE = "storage", "The storage cannot be read or written"
    MEMORY = "memory", "Memory ran out"
    DATABASE = "database", "The database or the broker did not answer"
    SYSTEM = "system", "The machine or the network failed"
    OTHER = "other", "An error nobody foresaw"


class FailureOwner(TextChoices):
    """Whose failure it is."""

    ENTRY = "entry", "The entry's"
    BOARD = "board", "The board's"


@dataclass(frozen=True)
class FailureClass:
    """How an error is treated. `final`: another attempt comes to the same, so none is made.

    `of_one_file`: of the board, and it keeps nothing waiting but the work that needs this very file.
    """

    kind: FailureKind
    owner: FailureOwner = FailureOwner.ENTRY
    final: bool = False
    of_one_file: bool = False


OTHER = FailureClass(FailureKind.OTHER)
RETIRED = "ScorerRetired"  # the fault of work whose scorer an operator has retired: it does not come back by itself


_OF_ENTRY, _OF_BOARD = FailureOwner.ENTRY, FailureOwner.BOARD
_DECLARED: dict[FailureClass, str] = {
    FailureClass(FailureKind.MODEL, _OF_ENTRY, final=True): (
        "ModelRefused NotApplicable UnsupportedKind RevisionChanged NotFinite FailedSelfTest OutOfTime WorkersDied"
    ),
    FailureClass(FailureKind.MODEL, _OF_ENTRY): "CageError CageDied CageTimeout CageBroken",
    FailureClass(FailureKind.MEMORY, _OF_ENTRY): "CageOutOfMemory",
    FailureClass(FailureKind.SERVER, _OF_ENTRY, final=True): "ServerRefused",
    FailureClass(FailureKind.SERVER, _OF_ENTRY): "ServerUnavailable",
    FailureClass(FailureKind.VERSION, _OF_ENTRY, final=True): "ScorerChanged",
    FailureClass(FailureKind.SCORER, _OF_ENTRY, final=True): RETIRED,
    FailureClass(FailureKind.DATABASE, _OF_ENTRY): "DatabaseError IntegrityError DataError",
    FailureClass(FailureKind.SCORER, _OF_BOARD): "ScorerUnavailable LexiconError UndeclaredLabel UnknownScorer",
    FailureClass(FailureKind.FILES, _OF_BOARD, of_one_file=True): "ArtefactLost ArtefactError FileNotFoundError",
    FailureClass(FailureKind.STORAGE, _OF_BOARD): "StorageAway OSError PermissionError",
    FailureClass(FailureKind.MEMORY, _OF_BOARD): "MemoryError OutOfMemoryError",
    # Django's of the database, and kombu's of the broker
    FailureClass(FailureKind.DATABASE, _OF_BOARD): "OperationalError InterfaceError InternalError",
    FailureClass(FailureKind.SYSTEM, _OF_BOARD): (
        "CageUnavailable HubUnavailable ImportError ConnectionError TimeoutError ConnectError ReadError "
        "TimeoutException"
    ),
}
# By the name of the class of an error; what is not declared is as the nearest of its base classes that is.
FAILURES = {name: failure_class for failure_class, names in _DECLARED.items() for name in names.split()}
FAULTS = {kind: tuple(name for name, of in FAILURES.items() if of.kind == kind) for kind in FailureKind}
BOARD_FAULTS = tuple(name for name, of in FAILURES.items() if of.owner == FailureOwner.BOARD)


def fault_of(error: BaseException) -> str:
    """What is written of an error as `Work.fault`: the nearest of its classes that is declared, else its own name."""
    if isinstance(error, ScorerUnavailable) and error.state is ScorerState.RETIRED:
        return RETIRED
    names = [ancestor.__name__ for ancestor in type(error).__mro__]
    return next((name for name in names if name in FAILURES), names[0])


def class_of(fault: str) -> FailureClass:
    """How the failure with this fault is treated; as the entry's where it is not declared."""
    return FAILURES.get(fault, OTHER)


def kind_of(fault: str) -> FailureKind:
    """The kind of a failure by its fault."""
    return class_of(fault).kind


def is_of_board(error: BaseException) -> bool:
    """Whether the board, and no entry, is at fault."""
    return class_of(fault_of(error)).owner == FailureOwner.BOARD


def is_final(error: BaseException) -> bool:
    """Whether another attempt would come to the same."""
    return class_of(fault_of(error)).final
