"""Every column is told: in the data package, the API and the files of rankings, or on a list with the reason."""

import csv
import io
import re
from pathlib import Path

import pytest
from django.apps import apps
from django.urls import reverse

from leaderboard.api.checks import WholeCheck
from leaderboard.api.language_models import Identity, Model
from leaderboard.api.metrics import MetricOut, Version
from leaderboard.api.results import ResultOut
from leaderboard.api.scorers import CalibrationCards
from leaderboard.api.standings import NotRanked, RankedEntry, Standings
from leaderboard.api.submissions import HubModel, SubmissionSent
from leaderboard.card.form import FIELDS
from leaderboard.exchange.tables import TABLES, PackageTable, public_detail
from leaderboard.management.commands.submit import Command
from leaderboard.models import (
    Artefact,
    AuditEvent,
    AuditVerb,
    Calibration,
    ControlCheck,
    EntryCheck,
    LanguageModel,
    Metric,
    MetricVersion,
    ModelIdentity,
    Rescoring,
    Result,
    Run,
    Standing,
    Submission,
    Work,
)
from leaderboard.queries.changes import OF_VERB
from leaderboard.submissions.forms.hub import HubForm
from leaderboard.submissions.forms.outputs import OutputsForm, ToolForm
from tests.leaderboard.continuations import import_sample
from tests.leaderboard.submitting import person

HANDLING = "how workers of this board handle the work, which is over in what is exported"
HANDLED = (
    *("reason", "fault", "attempts", "held", "not_before", "waits_since", "waits_for", "lease", "lease_expires_at"),
    *("heartbeat_at", "enqueued_at", "turn_at", "progressed_at", "worker"),
)
WORK_FIELDS = dict.fromkeys(HANDLED, HANDLING)
TIMING = dict.fromkeys(
    ("state", "created_at", "started_at", "seconds", "done", "total"), "of work that is over, the end alone is told"
)
PRIVATE = "a person of this board"
# Fields that no package holds, with the reason, by model.
NOT_IN_PACKAGES: dict[type, dict[str, str]] = {
    Artefact: {"checked_at": "when this board last read its copy of the file"},
    LanguageModel: {"hidden_note": "empty: hidden models are not exported"},
    MetricVersion: {
        "publications": "counts publications, so that kept pages are made anew",
        "ranges_due": "work on ranges of ranks that is under way",
    },
    Run: {
        "requests_made": "what the run cost this board's operator",
        "tokens_used": "what the run cost this board's operator",
        "requester": PRIVATE,
    },
    ControlCheck: {
        "host": "a machine of this board's operator",
        "first_host": "a machine of this board's operator",
        "first_finding": "what an earlier host found, on the way to the verdict",
    },
    Rescoring: {
        "requested_by": PRIVATE,
        "former_labels": "of a rescoring that is under way; packages hold those that have ended",
    },
    EntryCheck: {"decided_by": PRIVATE},
    AuditEvent: {"actor": PRIVATE},
}
# Models that no package holds, with the reason.
NOT_EXPORTED = {
    **dict.fromkeys(("Invitation", "ApiToken", "Preferences"), PRIVATE),
    **dict.fromkeys(("Submission", "SubmissionLine", "Reading"), "what people sent, theirs until it is ranked"),
    "Submission_scorings": "which entries submissions led to",
    **dict.fromkeys(("Download", "Opening", "Replicate", "ScorerProbe"), "work that is under way"),
    **dict.fromkeys(
        ("Worker", "Release", "Pulse", "Incident", "OutboxMessage", "Backup", "StorageMark"), "how this board is run"
    ),
    **dict.fromkeys(("StoredFolder", "FolderFile"), "files of scorers and models on this board's storage"),
    **dict.fromkeys(("CacheEntry", "SearchPage", "SearchState"), "made again from the other tables"),
    **dict.fromkeys(("Service", "ServiceCheck"), "what servers of this board's operator answer"),
    "Succession": "a comparison that `manage.py succession` makes again",
}

# What files of rankings call otherwise, by field of the API; and what only files say, where each row is on its own.
CSV_NAMES = {"scored_at": "scored", "reason": "not_ranked"}
ONLY_IN_FILES = {"among", "source", "published"}
CORRECTED = {"corrected_low", "corrected_high", "corrected_by"}  # fields of `corrected`
KEYS = {"id": "the database's own number"}
# What the API leaves out of a row that it describes, with the reason; names that differ, by field.
API = [
    (
        Model,
        LanguageModel,
        {
            **KEYS,
            "location": "`hub_id`; folders and addresses are the operator's own",
            "hidden_note": "hidden models are not listed",
        },
    ),
    (Identity, ModelIdentity, {**KEYS, "created_at": "when this board heard of it says nothing about it"}),
    (
        MetricOut,
        Metric,
        {
            **KEYS,
            "protocol": "`evaluation_set` and `k`; each version has the hash",
            "chat_protocol": "each version has the hash",
            "formula_name": "`formula`",
            "position": "the order of the list",
            "labels": "`attributes` of each version",
            "most_missing": "of each version",
            **dict.fromkeys(
                ("drift_policy", "outdated_policy", "flag_policy", "brake_after"), "what the operator decided for later"
            ),
        },
    ),
    (
        Version,
        MetricVersion,
        {
            **KEYS,
            "number": "`version`",
            "protocol": "`protocol_sha256`",
            "chat_protocol": "`chat_protocol_sha256`",
            "opened_because": "`opened_because_of_check`",
            "prompt_scores": "`manifest`",
            "epoch": "`manifest`",
            "created_at": "before it was published nobody saw it",
            "fallback_measure": "`standings` says which measure is shown first",
            "publications": "counts publications, so that kept pages are made anew",
            "ranges_due": "work on ranges of ranks that is under way",
        },
    ),
    (
        ResultOut,
        Result,
        {**KEYS, "scoring": "`model` and `version`"},
    ),
    (
        WholeCheck,
        ControlCheck,
        {
            **{name: reason for name, reason in WORK_FIELDS.items() if name != "reason"},
            **TIMING,
            **NOT_IN_PACKAGES[ControlCheck],
            "control_set": "`version`",
            "artefact": "scores of texts that nobody may download",
        },
    ),
    (
        CalibrationCards,
        Calibration,
        {
            **KEYS,
            **WORK_FIELDS,
            **TIMING,
            "metric_version": "`metric` and `version`",
            "evaluation_set": "`set`",
            "artefact": "`cards`",
        },
    ),
    (
        RankedEntry,
        Standing,
        {
            **KEYS,
            "metric_version": "`version`, of the ranking's metric",
            "result": "`value` and what goes with it",
            "measure": "of the ranking",
            "slice": "of the ranking",
        },
    ),
    (
        SubmissionSent,
        Submission,
        {
            "submitter": "whoever asks: nobody reads another person's",
            "payload": "`name`, `hub_id`, `revision`, `interface`, `precision` and `metrics`",
            "concerns": "what a moderator looks at; `in_words` says that it waits",
            "name_asked": "what a moderator decides upon; its page says that it waits",
            "upload": "the submitter's own file, until it was read",
            "artefact": "what became of the file; results of the model link to it",
            "scorings": "`metrics`, with the state of each",
        },
    ),
]
# Exported models that no schema of the API describes, with the reason.
NOT_IN_API = {
    "Artefact": "`/artefacts` gives the file itself",
    "Protocol": "each version has its hash and each metric its evaluation set",
    "EvaluationSet": "`evaluation_set` of each metric",
    "ControlSet": "texts that nobody may download",
    "Run": "what a scoring is of; the package has it",
    "Scoring": "`model` and `version` of each result",
    "EntryCheck": "its reason is that of an entry that is not ranked",
    "OutdatedEntry": "the page of the ranking lists them; the package has them",
    "Rescoring": "the public change log tells of it",
    "RetiredScorer": "`scorer_state` of each metric",
    "AuditEvent": "the public change log",
}
OF_PAGE = "of the model's page"
# What files of rankings leave out of their rows, with the reason, by model.
NOT_IN_FILES: dict[type, dict[str, str]] = {
    Standing: {**KEYS, "metric_version": "`version`", "result": "`value` and what goes with it"},
    Result: {
        **KEYS,
        "scoring": "`slug` and `version`",
        **dict.fromkeys(("p_value", "p_adjusted", "published_rank"), "of `/results` and the model's page"),
    },
    LanguageModel: {
        **KEYS,
        "name": "`model`",
        "location": "folders and addresses are the operator's own",
        "identity": "`slug` leads to the page that names it",
        "access": "a withdrawn model is in no ranking",
        "hidden_note": "a hidden model is in no ranking",
        "chat_template": "`prompting` says whether it has one",
        **dict.fromkeys(("heads", "layers", "hidden_size", "notes", "created_at", "service_changed_at"), OF_PAGE),
    },
}
BY_FILE = "read from the model's files, or measured"
BY_FORM = "asked for by the forms that need it, beside the card"
# What of a model nobody states on its card, with the reason.
NOT_ON_CARD = {
    **KEYS,
    **dict.fromkeys(("slug", "created_at"), "given by the board"),
    **dict.fromkeys(("kind", "revision", "interface", "precision"), BY_FORM),
    **dict.fromkeys(("source", "location"), "how it came to the board"),
    **dict.fromkeys(("parameters", "layers", "heads", "hidden_size", "weight_format", "chat_template"), BY_FILE),
    **dict.fromkeys(("access", "hidden_note", "identity"), "an operator's decision, with a verb of its own"),
    "source_name": "what a paper prints",
    "service_changed_at": "found by checks of the service",
}
# Fields that a page draws by hand once a model has been looked up.
SECOND_STEP = {*FIELDS, "revision", "precision", "interface", "metrics"}

WORK_STEERED = "steers work; what comes of it is told"
ON_WAY = "a step on the way of a submission, its submitter's until it is ranked"
RUNNING = "how the board is run"
ACCOUNTS = "about accounts"
# Verbs that the public change log does not tell, with the reason.
NOT_IN_LOG = {
    **dict.fromkeys(("retry run", "retry scoring", "cancel run", "cancel scoring"), WORK_STEERED),
    **dict.fromkeys(("pause rescoring", "resume rescoring", "hold rescoring back"), WORK_STEERED),
    **dict.fromkeys(("request control check", "find disagreement"), "the page of drift has each check"),
    "compare successor": "the page of the scorer has the comparison; a replacement is told",
    **dict.fromkeys(("hold entry back", "release entry", "refuse entry"), "the entry's page says it"),
    "add derived figures": "they are marked as derived wherever they are shown",
    **dict.fromkeys(("restart worker", "change state of file", "collect file again", "mark storage"), RUNNING),
    **dict.fromkeys(("restore board", "import board", "change in admin"), RUNNING),
    **dict.fromkeys(("submit", "accept submission", "refuse submission", "reject submission"), ON_WAY),
    **dict.fromkeys(("return submission", "send submission again", "retry submission"), ON_WAY),
    **dict.fromkeys(("cancel submission", "withdraw submission", "ask for name", "reject name"), ON_WAY),
    **dict.fromkeys(("invite", "use invitation", "revoke invitation", "set role"), ACCOUNTS),
    **dict.fromkeys(("make API token", "revoke API token"), ACCOUNTS),
}
ROOT = Path(__file__).parents[2]
# Where the public change log reads the detail of an event.
LOG_SOURCES = ("templates/partials/change.html", "leaderboard/queries/changes.py")
READ_DETAIL = re.compile(r"detail\.(?!get\b)(\w+)|detail\.get\(\"(\w+)\"")
MARKED_ON_IMPORT = {"by_operator"}  # a column of the package


def stored_fields(model: type) -> set[str]:
    """The names of a model's columns, and of its fields that a table of links holds."""
    return {field.name for field in (*model._meta.concrete_fields, *model._meta.many_to_many)}


def packaged_fields(table: PackageTable) -> set[str]:
    """The fields of the table's model that a package brings."""
    return {*table.own, *(link.attribute for link in table.links), *dict(table.constant)}


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_each_column_of_an_exported_model_is_in_the_package_or_has_a_reason(table):
    fields = stored_fields(table.model) - {"id"}
    exceptions = NOT_IN_PACKAGES.get(table.model, {})
    if issubclass(table.model, Work):
        exceptions = WORK_FIELDS | exceptions
    assert fields - packaged_fields(table) <= set(exceptions), "add it to exchange/tables.py, or say why not"
    assert set(exceptions) <= fields - packaged_fields(table), "these exceptions except nothing"


def test_each_model_is_in_the_package_or_has_a_reason():
    every_model = apps.get_app_config("leaderboard").get_models(include_auto_created=True)
    board_models = {model.__name__ for model in every_model}
    exported = {table.model.__name__ for table in TABLES}
    assert board_models - exported == set(NOT_EXPORTED)


@pytest.mark.parametrize(("schema", "model", "exceptions"), API, ids=[schema.__name__ for schema, _, _ in API])
def test_each_column_of_what_the_api_describes_is_a_field_there_or_has_a_reason(schema, model, exceptions):
    fields = stored_fields(model)
    named = set(schema.model_fields)
    assert fields - named <= set(exceptions), "add it to the schema, or say why not"
    assert not set(exceptions) & named, "these exceptions are fields of the schema"
    own_exceptions = set(exceptions) - set(WORK_FIELDS)
    assert own_exceptions <= fields, "these exceptions except nothing"


@pytest.mark.django_db
def test_the_file_of_a_ranking_has_each_number_that_the_api_has_and_the_other_way_round(client, measured_board):
    answer = client.get(reverse("export", args=["csv"]), {"metric": measured_board.slug})
    columns = set(next(csv.reader(io.StringIO(answer.content.decode()))))
    fields = set(RankedEntry.model_fields) | set(NotRanked.model_fields)
    assert fields - columns == set(CSV_NAMES), "add the column to rankings/exports.py, or say its name here"
    of_ranking = set(Standings.model_fields) - {"not_ranked"}
    slices = set(client.get(f"/api/v1/metrics/{measured_board.slug}/standings").json()["slices"])
    assert columns - fields - of_ranking - slices == {*CSV_NAMES.values(), *ONLY_IN_FILES, *CORRECTED}


def test_the_form_the_api_and_the_command_take_the_same_of_a_hub_model():
    form = set(HubForm.base_fields) | set(FIELDS)
    assert form == set(HubModel.model_fields) - {"form"}
    parser = Command().create_parser("manage.py", "submit")
    options = set(vars(parser.parse_args(["hub", "org/name"])))
    assert form <= options


def test_each_exported_model_is_described_by_the_api_or_has_a_reason():
    exported = {table.model.__name__ for table in TABLES}
    described = {model.__name__ for _, model, _ in API}
    assert exported - described == set(NOT_IN_API), "give it a schema, or say why not"


@pytest.mark.django_db
@pytest.mark.parametrize("model", NOT_IN_FILES, ids=[model.__name__ for model in NOT_IN_FILES])
def test_each_column_of_what_is_ranked_is_in_the_file_of_a_ranking_or_has_a_reason(client, measured_board, model):
    answer = client.get(reverse("export", args=["csv"]), {"metric": measured_board.slug})
    columns = set(next(csv.reader(io.StringIO(answer.content.decode()))))
    assert stored_fields(model) - columns == set(NOT_IN_FILES[model]), "add it to rankings/exports.py, or say why not"


def test_each_column_of_a_model_is_on_its_card_or_has_a_reason():
    assert stored_fields(LanguageModel) - set(FIELDS) == set(NOT_ON_CARD), "add it to card/form.py, or say why not"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("page", "form"),
    [("submit_hub", HubForm), ("submit_outputs", OutputsForm), ("submit_tool", ToolForm)],
)
def test_each_field_of_a_form_can_be_filled_in_on_its_page(client, measured_board, tmp_path, page, form):
    import_sample(tmp_path)  # what outputs of a tool can be for
    client.force_login(person("ada"))
    html = client.get(reverse(page)).content.decode()
    inputs = set(re.findall(r'<(?:input|select|textarea)\b[^>]*?\bname="([^"]+)"', html, re.S))
    later_fields = SECOND_STEP if page == "submit_hub" else set()
    assert set(form.base_fields) - later_fields <= inputs


def test_each_verb_is_told_by_the_public_change_log_or_has_a_reason():
    untold = {verb.value for verb in AuditVerb} - set(OF_VERB)
    assert untold == set(NOT_IN_LOG), "give it a section of the log, or say why not"


def test_each_detail_that_the_public_change_log_reads_is_in_the_package():
    text = "".join((ROOT / source).read_text(encoding="utf-8") for source in LOG_SOURCES)
    details = {name for names in READ_DETAIL.findall(text) for name in names if name} - MARKED_ON_IMPORT
    assert {"reason", "after", "scorer"} <= details, "the log no longer reads details by these names"
    assert set(public_detail({name: {} for name in details}, ())) == details, "add it to DETAILS of exchange/tables.py"
