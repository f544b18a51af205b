"""Kinds of failures, for counting and alerts: a closed set, where the reason of a piece of work is free text."""

from django.db.models import TextChoices


class FailureKind(TextChoices):
    """What kind of thing a failure is."""

    SCORER = "scorer", "The scorer gave no scores"
    MODEL = "model", "The model cannot be run"
    SERVER = "server", "The completions server refused"
    VERSION = "version", "The metric version is closed, or of another scorer"
    FILES = "files", "A stored file is missing or damaged"
    MEMORY = "memory", "Memory ran out"
    DATABASE = "database", "The database did not answer"
    SYSTEM = "system", "The machine or the network failed"
    OTHER = "other", "An error nobody foresaw"


# By `Work.fault`, the name of the error.
FAULTS = {
    FailureKind.SCORER: ("ScorerUnavailable", "LexiconError", "UndeclaredLabel", "UnknownScorer"),
    FailureKind.MODEL: (
        *("ModelRefused", "NotApplicable", "UnsupportedKind", "RevisionChanged", "NotFinite", "FailedSelfTest"),
        *("CageDied", "CageTimeout", "CageBroken", "OutOfTime", "WorkersDied"),
    ),
    FailureKind.SERVER: ("ServerRefused",),
    FailureKind.VERSION: ("ScorerChanged",),
    FailureKind.FILES: ("ArtefactError", "FileNotFoundError"),
    FailureKind.MEMORY: ("MemoryError", "OutOfMemoryError", "CageOutOfMemory"),
    FailureKind.DATABASE: ("DatabaseError", "OperationalError", "InterfaceError", "IntegrityError"),
    FailureKind.SYSTEM: (
        *("OSError", "PermissionError", "ConnectionError", "ConnectionResetError", "ConnectionRefusedError"),
        *("TimeoutError", "ConnectError", "ConnectTimeout", "ReadTimeout", "ReadError", "HubUnavailable"),
        "CageUnavailable",
    ),
}
BY_FAULT = {fault: kind for kind, faults in FAULTS.items() for fault in faults}


def kind_of(fault: str) -> FailureKind:
    """The kind of a failure by the name of its error."""
    return BY_FAULT.get(fault, FailureKind.OTHER)
