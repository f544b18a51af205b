"""What the board knows: state and invariants. The verbs are in `leaderboard.services`."""

from leaderboard.models.accounts import ApiToken, Invitation, Preferences
from leaderboard.models.audit import AuditEvent
from leaderboard.models.control import ControlCheck, ControlSet, Opening, Replicate, Rescoring
from leaderboard.models.entry_checks import EntryCheck, not_held
from leaderboard.models.evaluation import Artefact, EvaluationSet, Protocol
from leaderboard.models.folders import FolderFile, StoredFolder
from leaderboard.models.language_models import LanguageModel, listed, ranked_now
from leaderboard.models.metrics import Metric, MetricVersion, OutdatedEntry, Provenance, Standing
from leaderboard.models.operations import (
    AlertMessage,
    CacheEntry,
    Incident,
    OutgoingLetter,
    Pulse,
    Release,
    Worker,
)
from leaderboard.models.results import Result, significance
from leaderboard.models.scorers import RetiredScorer, ScorerProbe
from leaderboard.models.submissions import Letter, Reading, Submission, SubmissionLine
from leaderboard.models.work import Download, Run, Scoring, Work, unranked

__all__ = [
    "AlertMessage",
    "ApiToken",
    "Artefact",
    "AuditEvent",
    "CacheEntry",
    "ControlCheck",
    "ControlSet",
    "Download",
    "EntryCheck",
    "EvaluationSet",
    "FolderFile",
    "Incident",
    "Invitation",
    "LanguageModel",
    "Letter",
    "Metric",
    "MetricVersion",
    "Opening",
    "OutdatedEntry",
    "OutgoingLetter",
    "Preferences",
    "Protocol",
    "Provenance",
    "Pulse",
    "Reading",
    "Release",
    "Replicate",
    "Rescoring",
    "Result",
    "RetiredScorer",
    "Run",
    "ScorerProbe",
    "Scoring",
    "Standing",
    "StoredFolder",
    "Submission",
    "SubmissionLine",
    "Work",
    "Worker",
    "listed",
    "not_held",
    "ranked_now",
    "significance",
    "unranked",
]
