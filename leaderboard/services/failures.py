"""Why work failed, in words that whoever submitted the model can act on; and what of the technical reason is shown."""

import re
from dataclasses import dataclass

from django.conf import settings

from leaderboard.models import Work

AGAIN = "Retry it; if it fails the same way, tell the people who run this board the number of the submission."
WAIT = "Nothing is wrong with the model. Retry it later."
OTHERS = "It is not for you to mend: tell the people who run this board the number of the submission."
HIDDEN = "…"
# Absolute paths of two parts or more, but for addresses on the web and of this board; and what looks like a secret.
INNER = re.compile(r"\b(?!https?:)[a-z][a-z0-9+]*://\S+")  # a broker, a database, a file
PATHS = re.compile(r"(?<![\w/:.])(?!/submit/)(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'\":,;()\[\]]+){2,}[/\\]?")
CREDENTIALS = re.compile(r"(?<=://)[^\s/@]+@|\b(?:hf|sk|plumb|ghp|invitation)_[A-Za-z0-9]{8,}\b|(?<=Bearer )\S+")
PRIVATE = re.compile(
    r"\b(?:10|127|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}(?::\d+)?\b|\blocalhost(?::\d+)?\b"
)


@dataclass(frozen=True)
class Failure:
    """What went wrong, and what to do about it; each one or two sentences."""

    what: str
    remedy: str


KINDS: dict[str, Failure] = {
    "ModelRefused": Failure(
        "The model's files are refused.", "Mend them on the hub as the reason says, and submit the new revision."
    ),
    "FailedSelfTest": Failure(
        "The model does not pass the self-test: what this board computes of it is not what the model itself gives.",
        "No number of it is published. Submit another model, or tell the people who run this board: it is the "
        "architecture that fails here, not your files.",
    ),
    "RevisionChanged": Failure(
        "The files on the hub are not those that were pinned when you submitted the model.",
        "Submit the revision that is there now.",
    ),
    "HubUnavailable": Failure("The hub did not answer.", WAIT),
    "ConnectionError": Failure("A connection broke.", WAIT),
    "TimeoutError": Failure("A machine that was asked did not answer in time.", WAIT),
    "OutOfMemoryError": Failure("A worker of this board ran out of memory.", WAIT),
    "WorkersDied": Failure(
        "Every worker that began it died.", "Submit a smaller model, or tell the people who run this board."
    ),
    "OutOfTime": Failure(
        "The model takes longer than this board gives one.", "Submit a smaller or faster model, or ask for time."
    ),
    "CageOutOfMemory": Failure(
        "The model took more memory than this board's workers give one.", "Submit a smaller model, or ask for room."
    ),
    "CageTimeout": Failure(
        "The model took longer than this board gives one, or showed no progress.",
        "See that it runs at the speed of a model of its size, as in `python -m scoring perplexity`; then submit it.",
    ),
    "CageDied": Failure(
        "The process that ran the model died every time.",
        "See that the files load with transformers and score a few sentences, as in `python -m scoring perplexity`.",
    ),
    "CageBroken": Failure("What came of running the model was no outputs of a model.", AGAIN),
    "CageUnavailable": Failure("This board could not shut the model in safely, so it was not run.", OTHERS),
    "NotApplicable": Failure(
        "This metric cannot be taken of this model.", "Choose metrics that fit its kind; the reason says what does not."
    ),
    "UnsupportedKind": Failure(
        "This metric needs a model that continues texts, and this one does not.",
        "Choose a metric of likelihoods for it, as safety is.",
    ),
    "ServerRefused": Failure(
        "The server that runs the model refused what it was asked.", "See that it serves the model, then retry."
    ),
    "ScorerUnavailable": Failure("The scorer of this metric cannot be had.", WAIT),
    "ScorerChanged": Failure(
        "The metric has moved on to another version while this waited.", "Retry it: it is scored under the new version."
    ),
    "UnknownScorer": Failure("This board lacks the scorer of this metric.", OTHERS),
    "UndeclaredLabel": Failure("Nobody has declared what a label of this metric's scorer means.", OTHERS),
    "LexiconError": Failure("The lexicon of this metric cannot be read.", OTHERS),
    "ScorerRetired": Failure(
        "The scorer of this metric is retired.", "Choose another metric, or ask the people who run this board."
    ),
    "ArtefactError": Failure("A file of this board cannot be read.", OTHERS),
    "ArtefactLost": Failure("A file of this board is missing or damaged.", OTHERS),
    "FileNotFoundError": Failure("A file of this board is missing.", OTHERS),
    "OSError": Failure("A file of this board could not be read or written.", WAIT),
    "StorageAway": Failure("The storage of this board does not answer.", WAIT),
    "OperationalError": Failure("The board's database did not answer.", WAIT),
    "InterfaceError": Failure("The board's database did not answer.", WAIT),
}
KINDS["MemoryError"] = KINDS["OutOfMemoryError"]
NOT_FINITE_REMEDY = (
    "Look for NaN or infinity among its weights, and for activations beyond the range of float32; then submit the "
    "mended revision."
)
UNKNOWN = Failure("Something went wrong that was not foreseen.", AGAIN)
CANCELLED = Failure("It was cancelled.", "Retry it, if you want it after all.")


def explain(work: Work) -> Failure:
    """What the reason of `work` means to its submitter."""
    if work.state == Work.State.CANCELLED:
        return CANCELLED
    if work.fault == "NotFinite":
        return Failure(f"{shown(work.reason)}.", NOT_FINITE_REMEDY)
    return KINDS.get(work.fault, UNKNOWN)


def shown(reason: str) -> str:
    """A technical reason as its submitter may read it: without paths, secrets and addresses of this installation."""
    for secret in (settings.HUB_TOKEN, settings.PERSPECTIVE_API_KEY, settings.COMPLETIONS_API_KEY, settings.SECRET_KEY):
        if secret:
            reason = reason.replace(secret, HIDDEN)
    for pattern in (INNER, CREDENTIALS, PATHS, PRIVATE):
        reason = pattern.sub(HIDDEN, reason)
    return reason
