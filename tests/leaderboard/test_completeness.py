"""Every column is told: in the data package, the API and the files of rankings, or on a list with the reason."""

import csv
import io

import pytest
from django.apps import apps
from django.urls import reverse

from leaderboard.api.checks import WholeCheck
from leaderboard.api.language_models import Identity, Model
from leaderboard.api.metrics import MetricOut, Version
from leaderboard.api.results import ResultOut
from leaderboard.api.scorers import CalibrationCards
from leaderboard.api.standings import NotRanked, RankedEntry, Standings
from leaderboard.api.submissions import HubModel
from leaderboard.card.form import FIELDS
from leaderboard.exchange.tables import TABLES, PackageTable
from leaderboard.management.commands.submit import Command
from leaderboard.models import (
    Artefact,
    AuditEvent,
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
    Work,
)
from leaderboard.submissions.forms.hub import HubForm

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
    Rescoring: {"requested_by": PRIVATE},
    EntryCheck: {"decided_by": PRIVATE},
    AuditEvent: {"actor": PRIVATE},
}
# Models that no package holds, with the reason.
NOT_EXPORTED = {
    **dict.fromkeys(("Invitation", "ApiToken", "Preferences"), PRIVATE),
    **dict.fromkeys(("Submission", "SubmissionLine", "Reading"), "what people sent, theirs until it is ranked"),
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
]


def concrete_fields(model: type) -> set[str]:
    """The names of a model's columns, its own key left out."""
    return {field.name for field in model._meta.concrete_fields}


def packaged_fields(table: PackageTable) -> set[str]:
    """The fields of the table's model that a package brings."""
    return {*table.own, *(link.attribute for link in table.links), *dict(table.constant)}


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_each_column_of_an_exported_model_is_in_the_package_or_has_a_reason(table):
    fields = concrete_fields(table.model) - {"id"}
    exceptions = NOT_IN_PACKAGES.get(table.model, {})
    if issubclass(table.model, Work):
        exceptions = WORK_FIELDS | exceptions
    assert fields - packaged_fields(table) <= set(exceptions), "add it to exchange/tables.py, or say why not"
    assert set(exceptions) <= fields - packaged_fields(table), "these exceptions except nothing"


def test_each_model_is_in_the_package_or_has_a_reason():
    board_models = {model.__name__ for model in apps.get_app_config("leaderboard").get_models()}
    exported = {table.model.__name__ for table in TABLES}
    assert board_models - exported == set(NOT_EXPORTED)


@pytest.mark.parametrize(("schema", "model", "exceptions"), API, ids=[schema.__name__ for schema, _, _ in API])
def test_each_column_of_what_the_api_describes_is_a_field_there_or_has_a_reason(schema, model, exceptions):
    fields = concrete_fields(model)
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
