"""What commands print for programs: what each is written from; and the commands that only say what they did."""

from dataclasses import asdict

from django.utils import timezone

from leaderboard.management.commands import backup, evaluate, storage
from leaderboard.models import AuditEvent, Incident, Result, Run, Scoring, Submission, Worker
from leaderboard.operations.backups.sets import Envelope
from leaderboard.operations.services.stored_files import StorageComparison
from leaderboard.rankings.changes import Record, Side
from leaderboard.services.licences import PackageLicence
from leaderboard.services.rescore import CostEstimate
from leaderboard.services.shifts import Shifts
from leaderboard.services.verify import Verification
from leaderboard.services.workers import Fleet, LiveWorker, Queue
from leaderboard.storage import StoredObject
from leaderboard.submissions.queries.progress import SubmissionProgress, describe_submissions
from scoring.metrics.agreement import AttributeShift
from scoring.statistics.rank_changes import ModelChange
from tests.leaderboard.exports import Export, Source
from tests.leaderboard.exports_of_pages import CHANGES, OF_CHANGES, VERSION
from tests.leaderboard.test_completeness import KEYS

# Commands with --json that list no rows, with the reason.
SAY_WHAT_THEY_DID = dict.fromkeys(
    (
        *("add_metric", "add_model", "cancel", "export", "fetch_data", "fetch_plotly", "hide_model", "invite"),
        *("import_evaluation_set", "import_lexicon", "import_results", "import_scorer", "join_model", "manifest"),
        *("mark_storage", "moderate", "restore", "retire_scorer", "retry", "set_access", "set_policy", "set_role"),
    ),
    "it says what it did, and of what",
) | {
    "calibrate": "it prints the report cards that it made, which /api/v1/scorers/ has with all that goes with them",
    "check_control": "it prints what came of its check, which /api/v1/metrics/SLUG/checks has in full",
    "check_services": "it prints the statistics of its checks as they are stored",
    "standings": "it prints the files of /rankings",
    "compare_scorers": "it prints the files of /compare-scorers",
    "succession": "it prints the files of /metrics/SLUG/succession",
}
HANDING = dict.fromkeys(
    ("lease", "lease_expires_at", "enqueued_at", "turn_at"), "how workers hand work on; a lease is a worker's own"
)
FILE = "/api/v1/artefacts and the manifest"


def summarise_backup() -> object:
    """A set as `backup --list` has it."""
    moment = timezone.now()
    return backup.summarise(Envelope("s", moment, moment, "b", "c", "sqlite", "", 1, 2, 3, 0, "m", ("o",)))


def describe_fleet() -> object:
    """A queue and two workers, as `work` has them."""
    queue, worker = Queue("default", 1, 2, 3, 0, None, ["w"]), LiveWorker("w", ["default"], [])
    moment = timezone.now()
    member = Worker(name="w", started_at=moment, beat_at=moment)
    fleet = Fleet([queue], [worker], "", moment, [member], [member]).as_json()
    return fleet | {"known": list(fleet["known"].values())}


CHANGED = "rank_changes careful"
EXPORTS = (
    Export(
        f"{CHANGED} --format csv",
        sources=(Source(ModelChange),),
        beside={"change", "difference"},
    ),
    Export(
        f"{CHANGED} --json",
        "",
        (Source(Record, {"before": "from", "after": "to", "changes": "models"}), CHANGES),
        {"metric", "measure", "slice", "population", *OF_CHANGES},
    ),
    Export(
        f"{CHANGED} --json",
        "from",
        (Source(Side, {"entries": "population_size"}, {"population": "of both"}), VERSION),
    ),
    Export(f"{CHANGED} --json", "models", (Source(ModelChange),), {"change", "difference"}),
    Export(f"{CHANGED} --json", "distribution_shift", (Source(Shifts),)),
    Export(f"{CHANGED} --json", "distribution_shift.pooled", (Source(AttributeShift),), {"flips"}),
    Export(
        "submissions --json",
        "",
        (
            Source(
                Submission,
                {"submitter": "user", "created_at": "sent", "ended_at": "ended"},
                {
                    **dict.fromkeys(("upload", "artefact"), "the submitter's file, and what became of it"),
                    "scorings": "its page says how far each is",
                },
            ),
        ),
        {"name"},
    ),
    Export(
        "submit --json",
        "",
        (Source(SubmissionProgress),),
        answer=lambda: [asdict(progress) for progress in describe_submissions(list(Submission.objects.all()))],
    ),
    Export(
        "work runs --json",
        "runs",
        (
            Source(
                Run,
                {"protocol": "evaluation_set"},
                {
                    **HANDING,
                    **dict.fromkeys(
                        ("artefact", "environment", "special_tokens", "loaded_files", "self_test", "chat"), FILE
                    ),
                    "tokenizer_report": "the page of the model shows it",
                    "requester": "`submissions` says whose it is",
                },
            ),
        ),
    ),
    Export(
        "work scorings --json",
        "scorings",
        (
            Source(
                Scoring,
                {"metric_version": ("metric", "version")},
                {**HANDING, **dict.fromkeys(("artefact", "replicates"), FILE), "scored_at": "`finished_at`"},
            ),
        ),
    ),
    Export(
        "work --json",
        "",
        (Source(Fleet),),
        {"unattended"},
        answer=describe_fleet,
    ),
    Export("work --json", "queues", (Source(Queue),), answer=describe_fleet),
    Export("work --json", "workers", (Source(LiveWorker),), answer=describe_fleet),
    Export(
        "work --json",
        "known",
        (Source(Worker, left_out=KEYS | {"name": "the key of each"}),),
        answer=describe_fleet,
    ),
    Export("audit --json", "events", (Source(AuditEvent, {"subject": "object"}),)),
    Export(
        "alerts --json",
        "incidents",
        (
            Source(
                Incident,
                left_out={"key": "what the board finds it again by", "resolved_at": "those that are open are listed"},
            ),
        ),
    ),
    Export("verify careful --json", "", (Source(Verification),)),
    Export("licences --texts --json", "", (Source(PackageLicence),)),
    Export("storage check --json", "", (Source(StorageComparison),)),
    Export(
        "storage check --json",
        "unreferenced",
        (Source(StoredObject, {"size": "bytes"}),),
        answer=lambda: {"unreferenced": [storage.describe(StoredObject("n", 1, timezone.now()))]},
    ),
    Export(
        "backup --list --json",
        "",
        (
            Source(
                Envelope,
                left_out={"board": "the address of the board that is asked", "manifest": "one of `objects`"},
            ),
        ),
        answer=summarise_backup,
    ),
    Export(
        "evaluate alder --metric careful --json",
        "results",
        (
            Source(
                Result,
                left_out={
                    **KEYS,
                    "scoring": "of the whole answer",
                    **dict.fromkeys(("derived", "interval_derived", "published_rank"), "of published figures alone"),
                },
            ),
        ),
        answer=lambda: evaluate.Command().describe_scoring(Scoring.objects.filter(model__slug="alder").latest("pk")),
    ),
    Export("rescore careful --estimate --json", "estimate", (Source(CostEstimate),)),
)
