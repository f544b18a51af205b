"""Every column is in Django's admin, and every column that people decide is on a form; or it has a reason."""

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from allauth.account.models import EmailConfirmation
from allauth.socialaccount.models import SocialApp, SocialToken
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.files.uploadedfile import SimpleUploadedFile
from django.forms import BaseForm
from django.test import RequestFactory
from django.urls import get_resolver, reverse

from leaderboard.card.form import FIELDS, Card
from leaderboard.management.commands.set_policy import Command as SetPolicy
from leaderboard.models import (
    ApiToken,
    EvaluationSet,
    Invitation,
    LanguageModel,
    Metric,
    ModelIdentity,
    OutboxMessage,
    Preferences,
    Submission,
)
from leaderboard.operations.admin import CardForm, EvaluationSetAdmin, MetricAdmin, ModelIdentityAdmin, RoleForm
from leaderboard.operations.forms import NoteForm, PolicyForm, ReasonForm, SuccessorForm
from leaderboard.people import forms as accounts
from leaderboard.people.forms import InvitationForm, TokenForm
from leaderboard.people.services.roles import set_role
from leaderboard.services import cages, look_ups
from leaderboard.services.policies import policy_in_force
from leaderboard.submissions.forms.hub import HubForm
from leaderboard.submissions.forms.outputs import ContributionForm, OutputsForm, ToolForm
from leaderboard.submissions.intake import check_hub_model, check_log, check_outputs
from leaderboard.submissions.queries.submissions import read_contents
from scoring.contributed.tools import results_of
from scoring.language_models import Architecture, ResolvedModel
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.contributing import prompts, stage
from tests.leaderboard.reads import reads_of
from tests.leaderboard.submitting import person
from tests.leaderboard.test_completeness import KEYS, stored_fields

__all__ = ["prompts", "stage"]

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

SECRET = "lets in whoever has it"
# Columns that the admin shows nobody, with the reason.
NOT_IN_ADMIN: dict[type, dict[str, str]] = {
    ApiToken: {"token_hash": SECRET},
    Invitation: {"token_hash": SECRET},
    OutboxMessage: {"body": "it may hold a link that lets one in"},
    EmailConfirmation: {"key": SECRET},
    SocialApp: {"secret": SECRET, "key": SECRET},
    SocialToken: {"token": SECRET, "token_secret": SECRET},
    Submission: {"upload": "the submitter's own file, until it was read"},
    User: {
        "password": SECRET,
        **dict.fromkeys(("first_name", "last_name"), "nobody is asked for it"),
        **dict.fromkeys(("groups", "user_permissions"), "`role` stands for them"),
    },
}
WITHOUT_ADMIN = {Session: SECRET}

GIVEN = "given by the board"
DECLARED = "declared with the metric: another one is another metric"
MEASURED = "read from the file that is imported: another one is another version"
POLICY = {"drift_policy", "outdated_policy", "flag_policy", "most_missing", "brake_after"}
# By model: the columns that a form of people sets, and the others with the reason.
DECIDED: list[tuple[type, set[str], dict[str, str]]] = [
    (
        Metric,
        {*MetricAdmin.editable, *POLICY},
        {
            **KEYS,
            **dict.fromkeys(("slug", "protocol", "chat_protocol", "formula_name", "measure", "labels"), DECLARED),
            "scorer": "replaced by a rescoring, with its reason",
        },
    ),
    (
        EvaluationSet,
        {*EvaluationSetAdmin.editable},
        {
            **KEYS,
            **dict.fromkeys(("slug", "version", "created_at"), GIVEN),
            **dict.fromkeys(("kind", "source", "languages", "counts", "irregularities", "artefact"), MEASURED),
            **dict.fromkeys(("prompt_scores", "continuations", "continuation_scores"), MEASURED),
        },
    ),
    (ModelIdentity, {*ModelIdentityAdmin.editable}, {**KEYS, **dict.fromkeys(("slug", "created_at"), GIVEN)}),
    (
        Invitation,
        {"email", "expires_at", "revoked_at"},
        {**KEYS, **dict.fromkeys(("token_hash", "invited_by", "created_at", "used_at", "used_by"), GIVEN)},
    ),
    (
        ApiToken,
        {"name", "expires_at", "revoked_at"},
        {**KEYS, **dict.fromkeys(("owner", "token_hash", "last_four", "created_at", "last_used_at"), GIVEN)},
    ),
    (Preferences, {"letters"}, {"user": GIVEN}),
]


def superuser() -> User:
    """Somebody who may do everything in the admin."""
    return User.objects.create_superuser("chief", "chief@example.org", "a long passphrase")


def test_each_column_of_each_table_is_in_the_admin_or_has_a_reason():
    request = RequestFactory().get("/admin/")
    request.user = superuser()
    for model, options in admin.site._registry.items():
        columns = stored_fields(model) - {"id"}
        hidden = columns - set(options.get_fields(request, model()))
        assert hidden == set(NOT_IN_ADMIN.get(model, {})), f"{model.__name__}: show them, or say why not"


def test_each_table_is_in_the_admin_or_has_a_reason():
    assert set(apps.get_models()) - set(admin.site._registry) == set(WITHOUT_ADMIN)


@pytest.mark.parametrize(("model", "decided", "others"), DECIDED, ids=[model.__name__ for model, _, _ in DECIDED])
def test_each_column_that_people_decide_is_on_a_form_or_has_a_reason(model, decided, others):
    columns = stored_fields(model)
    assert decided <= columns
    assert columns - decided == set(others), "put it on a form, or say why not"


def test_the_form_and_the_command_have_each_field_of_a_policy(measured_board):
    policy = set(policy_in_force(measured_board))
    assert set(PolicyForm(measured_board).fields) == policy | {"reason"}
    options = vars(SetPolicy().create_parser("manage.py", "set_policy").parse_args(["a-metric"]))
    assert policy | {"reason"} <= set(options)


ON_PAGES: list[tuple[str, list[str], type[BaseForm]]] = [
    ("drift_policy", ["safety-starter"], PolicyForm),
    ("retire_scorer", ["safety-starter"], ReasonForm),
    ("rescore", ["safety-starter"], ReasonForm),
    ("steer_model", [CAUSAL, "withdraw"], ReasonForm),
    ("steer_model", [CAUSAL, "hide"], NoteForm),
    ("compare_successor", ["toxicity-profanity"], SuccessorForm),
    ("invitations", [], InvitationForm),
    ("tokens", [], TokenForm),
]


@pytest.mark.parametrize(("address", "arguments", "form"), ON_PAGES)
def test_each_field_of_a_form_of_operators_can_be_filled_in_on_its_page(
    client, measured_board, address, arguments, form
):
    operator = person("opal")
    set_role(operator, "operator")
    client.force_login(operator)
    html = client.get(reverse(address, args=arguments)).content.decode()
    inputs = set(re.findall(r'<(?:input|select|textarea)\b[^>]*?\bname="([^"]+)"', html, re.S))
    fields = PolicyForm(measured_board).fields if form is PolicyForm else form.base_fields
    assert set(fields) <= inputs


BASE = "the base of other forms"
BY_ADMIN = "the admin draws each of its fields"
BY_LOOP = "its page draws each of its fields"
# Forms that no test of this module fills in, with the reason.
NOT_FILLED_IN: dict[type[BaseForm], str] = {
    **dict.fromkeys((Card, ContributionForm), BASE),
    **dict.fromkeys((CardForm, RoleForm), BY_ADMIN),
    **dict.fromkeys((accounts.LogInForm, accounts.SignUpForm, accounts.SocialSignUpForm), BY_LOOP),
    **dict.fromkeys((accounts.ResetPasswordForm, accounts.NewPasswordForm, accounts.SetPasswordForm), BY_LOOP),
    **dict.fromkeys((accounts.ChangePasswordForm, accounts.ChangeEmailForm), BY_LOOP),
}
# What views read from what was sent without a form, and the template where it is filled in, by module.
READ_WITHOUT_FORM = {
    "operations/views/board.py": {
        **dict.fromkeys(("reason", "scorer", "under_way"), "rescore.html"),
        "confirmed": "operate/policy_change.html",
    },
    "operations/views/work.py": {"work": "operate/retry_all.html"},
    "submissions/views/hub.py": {
        **dict.fromkeys(("send", "interface", "offers_interfaces"), "submit/hub.html"),
        "metrics": "submit/metric_choice.html",
    },
    "submissions/views/moderation.py": {"reason": "submissions/moderate.html"},
    "submissions/views/outputs.py": {"metrics": "submit/asked.html"},
    "submissions/views/submissions.py": {
        "letters": "submissions/workspace.html",
        "reason": "submissions/confirm.html",
        "metrics": "submissions/edit.html",
    },
}


def forms_below(form: type[BaseForm]) -> set[type[BaseForm]]:
    """All forms that are made from this one."""
    return {form, *(lower for child in form.__subclasses__() for lower in forms_below(child))}


def test_each_form_is_filled_in_by_a_test_or_has_a_reason():
    get_resolver().url_patterns  # noqa: B018 (imports the views, and the forms with them)
    forms = {form for form in forms_below(BaseForm) if form.__module__.startswith("leaderboard.")}
    filled_in = {HubForm, OutputsForm, ToolForm, *(form for _, _, form in ON_PAGES)}
    assert forms - filled_in == set(NOT_FILLED_IN), "fill it in on its page, or say why not"


def test_what_views_read_without_a_form_is_on_their_pages():
    root = Path(settings.BASE_DIR)
    names = {}
    for path in root.glob("leaderboard/**/*.py"):
        reads = reads_of(ast.parse(path.read_text(encoding="utf-8")), is_sent)
        if module_names := set().union(*reads):
            names[str(path.relative_to(root / "leaderboard"))] = module_names
    assert names == {module: set(templates) for module, templates in READ_WITHOUT_FORM.items()}, "say where it is"
    for templates in READ_WITHOUT_FORM.values():
        for name, template in templates.items():
            assert f'name="{name}"' in (root / "templates" / template).read_text(encoding="utf-8"), template


def is_sent(node: ast.AST) -> bool:
    """Whether an expression is what a browser sent, as in `request.POST`."""
    return isinstance(node, ast.Attribute) and node.attr == "POST"


CARD_VALUES = {name: f"Granite {name}" for name in FIELDS} | {"context": "4321", "release_date": "2026-11-02"}
IN_WORDS = {"text": str(LanguageModel.Interface.TEXT.label), "True": "yes"}  # else as it was filled in


def read_by_moderators(form: str, payload: Mapping[str, Any]) -> str:
    """All that a page of a submission says was sent."""
    contents = read_contents(Submission(form=form, payload=payload))
    return "\n".join(field.text for field in (*contents.filled_in, *contents.findings))


def assert_each_is_told(text: str, values: Mapping[str, Any]) -> None:
    """Fail where a value that was filled in is not among what moderators read; metrics are told by their titles."""
    for name in set(values) - {"metrics"}:
        value = str(values[name][0] if isinstance(values[name], list) else values[name])
        assert IN_WORDS.get(value, value) in text, f"{name}: moderators do not read it"


def test_moderators_read_each_field_of_the_form_of_outputs(prompts):
    values = {
        **CARD_VALUES,
        **{"metrics": [prompts.slug], "revision": "r-765", "kind": "causal", "interface": "text"},
        **{"made_with": "Basalt 3", "temperature": "0.123", "top_p": "0.456", "max_new_tokens": "789"},
    }
    assert set(values) | {"file"} == set(OutputsForm.base_fields)
    (payload,) = check_outputs(person("ada"), values, SimpleUploadedFile("slate.jsonl", b"{}"))
    text = read_by_moderators("outputs", json.loads(json.dumps(payload)))
    assert_each_is_told(text, values | {"file": "slate.jsonl"})
    assert prompts.title in text


def test_what_a_submission_holds_twice_is_told_once():
    payload = {"said": {"made_with": "Basalt 3"}, "provenance": {"made_with": "Basalt 3", "file": "slate.jsonl"}}
    assert read_by_moderators("outputs", payload) == "Basalt 3\nslate.jsonl"


def test_moderators_read_each_field_of_the_form_of_logs(prompts, monkeypatch):
    values = {
        **CARD_VALUES,
        **{"metrics": [prompts.slug], "revision": "r-765", "k": "97", "leave_out_others": True},
    }
    assert set(values) | {"file", "results"} == set(ToolForm.base_fields)
    monkeypatch.setattr(cages, "read_results", results_of)  # as in a cage, whose start takes seconds
    results = SimpleUploadedFile("results_1.json", json.dumps({"model_name": "Slate"}).encode())
    (payload,) = check_log(person("ada"), values | {"results": results}, SimpleUploadedFile("slate.eval", b"{}"))
    text = read_by_moderators("tool", json.loads(json.dumps(payload)))
    assert_each_is_told(text, values | {"file": "slate.eval"})
    assert prompts.title in text
    assert "Slate" in text


def test_moderators_read_each_field_of_the_form_of_hub_models(prompts, monkeypatch):
    architecture = Architecture("causal", "gpt2", "GPT2LMHeadModel", "GPT-2", 10, 1, 1, 8, 8, 9)
    on_hub = ResolvedModel("hub", "org/name", "a" * 40, architecture, "mit", 40)
    monkeypatch.setattr(look_ups, "prepare", lambda: None)
    monkeypatch.setattr(look_ups, "look_up", lambda _hub_id, _revision, _patience: on_hub)
    values = {
        **{name: value for name, value in CARD_VALUES.items() if name != "context"},  # its configuration says it
        **{"hub_id": "org/name", "revision": "main", "precision": "bfloat16", "interface": ["text"]},
        "metrics": [prompts.slug],
    }
    assert set(values) | {"context"} == set(HubForm.base_fields)
    (payload,) = check_hub_model(person("ada"), values, None)
    text = read_by_moderators("hub", json.loads(json.dumps(payload)))
    assert_each_is_told(text, values)
    assert prompts.title in text
