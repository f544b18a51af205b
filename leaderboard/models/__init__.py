"""The models of the board: state and invariants. The verbs are in `leaderboard.services`."""

from leaderboard.models.accounts import ApiToken, Invitation, Preferences
from leaderboard.models.audit import AuditEvent, AuditVerb
from leaderboard.models.backups import Backup, StorageMark
from leaderboard.models.calibrations import Calibration
from leaderboard.models.control import ControlCheck, ControlSet, Opening, Replicate, Rescoring
from leaderboard.models.entry_checks import EntryCheck, not_held
from leaderboard.models.evaluation import Artefact, EvaluationSet, Protocol
from leaderboard.models.folders import FolderFile, StoredFolder
from leaderboard.models.identities import ModelIdentity
from leaderboard.models.language_models import (
    LanguageModel,
    address_of_model,
    asked_as,
    is_listed,
    open_weights,
    ranked_now,
)
from leaderboard.models.metrics import Metric, MetricVersion, OutdatedEntry, Provenance, Standing
from leaderboard.models.operations import CacheEntry, Incident, Pulse, Release, Worker
from leaderboard.models.outbox import OutboxMessage
from leaderboard.models.results import Result, significance
from leaderboard.models.scorers import RetiredScorer, ScorerProbe
from leaderboard.models.search import SearchPage, SearchState
from leaderboard.models.served import Service, ServiceCheck
from leaderboard.models.submissions import Reading, Submission, SubmissionLine
from leaderboard.models.successions import Succession
from leaderboard.models.work import Download, Run, Scoring, Work, WorkKind, course_fields, is_unranked

WORK_TABLES: tuple[type[Work], ...] = (
    Run,
    Scoring,
    ControlCheck,
    Calibration,
    Succession,
    ServiceCheck,
    Reading,
    Download,
)  # in the order of lists

__all__ = [
    "WORK_TABLES",
    "ApiToken",
    "Artefact",
    "AuditEvent",
    "AuditVerb",
    "Backup",
    "CacheEntry",
    "Calibration",
    "ControlCheck",
    "ControlSet",
    "Download",
    "EntryCheck",
    "EvaluationSet",
    "FolderFile",
    "Incident",
    "Invitation",
    "LanguageModel",
    "Metric",
    "MetricVersion",
    "ModelIdentity",
    "Opening",
    "OutboxMessage",
    "OutdatedEntry",
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
    "SearchPage",
    "SearchState",
    "Service",
    "ServiceCheck",
    "Standing",
    "StorageMark",
    "StoredFolder",
    "Submission",
    "SubmissionLine",
    "Succession",
    "Work",
    "WorkKind",
    "Worker",
    "address_of_model",
    "asked_as",
    "course_fields",
    "is_listed",
    "is_unranked",
    "not_held",
    "open_weights",
    "ranked_now",
    "significance",
]
