"""A refusal names field, value and remedy, and is told in one way by forms, the API and commands."""

import ast
import json
from pathlib import Path

import pytest
from django import forms
from django.core.management.base import CommandError

from leaderboard import models
from leaderboard.api.problems import CORRECT, USE_ANOTHER, refuse
from leaderboard.card.fields import show_refusal
from leaderboard.management.output import BoardCommand, RefusableCommand
from leaderboard.people.services.tokens import TokenRefused
from leaderboard.rankings.versions import NoRanking
from leaderboard.services.evaluate import MetricUnavailable
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.drift import Policy
from scoring.language_models import Gated
from scoring.refusals import WHOLE, Missing, Refused
from scoring.scorers import UnknownScorer

ROOT = Path(models.__file__).parent.parent


class ReasonForm(forms.Form):
    reason = forms.CharField(required=False)


def faults(refusal: Refused) -> tuple[int, list[dict]]:
    response = refuse(refusal)
    return response.status_code, json.loads(response.content)["errors"]


def test_a_refusal_says_the_field_the_value_and_the_problem():
    value, field = Refused.of_value("k", 0, "use 1 or more"), Refused.of_field("reason", "it is empty; say why")
    assert (str(value), value.field, value.value) == ("k = 0: use 1 or more", "k", 0)
    assert (str(field), field.field, field.problems) == (
        "reason: it is empty; say why",
        "reason",
        {"reason": ["reason: it is empty; say why"]},
    )
    assert Refused("not now").problems == {WHOLE: ["not now"]}


@pytest.mark.parametrize("kind", [MetricUnavailable, NoRanking, TokenRefused, Gated, UnknownScorer])
def test_the_engine_and_the_site_refuse_by_one_base(kind):
    assert issubclass(kind, Refused)


def test_the_engine_names_the_field_of_a_policy():
    with pytest.raises(Refused, match="alpha: 2 does not lie between 0 and 1") as refused:
        Policy(alpha=2)
    assert refused.value.field == "alpha"


def test_forms_show_a_refusal_at_its_field_and_else_above_the_fields():
    form = ReasonForm({"reason": ""})
    show_refusal(form, Refused.of_field("reason", "it is empty"))
    show_refusal(form, Refused("not now"))
    show_refusal(form, SubmissionRefused({"reason": ["too long"], "other": ["unknown"]}))
    assert form.errors == {"reason": ["reason: it is empty", "too long"], "__all__": ["not now", "unknown"]}


def test_the_api_answers_with_field_value_and_remedy():
    status, errors = faults(Missing("no such metric", field="slug", value="x", remedy="See the list."))
    assert (status, errors) == (
        404,
        [{"field": "slug", "value": "x", "message": "no such metric", "remedy": "See the list."}],
    )
    assert faults(Missing("no such metric"))[1][0]["remedy"] == USE_ANOTHER
    status, errors = faults(SubmissionRefused({"name": ["It is empty."], WHOLE: ["You sent too many."]}))
    assert status == 422
    assert [(error["field"], error["remedy"]) for error in errors] == [("name", CORRECT), (None, CORRECT)]


def test_the_api_blames_the_version_that_does_not_exist(client, board):
    answer = client.get("/api/v1/metrics/safety-starter/rank-changes?from=1&to=99")
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"], error["value"]) == (404, "to", "99")


@pytest.mark.parametrize("error", [Refused("it cannot be done"), FileNotFoundError("it is gone")])
@pytest.mark.parametrize("base", [BoardCommand, RefusableCommand])
def test_commands_say_a_refusal_in_a_sentence(base, error):
    class Command(base):
        requires_system_checks = ()

        def handle(self, *_args, **_options):
            raise error

    with pytest.raises(CommandError, match=str(error)):
        Command().execute(no_color=True, force_color=False, skip_checks=True)


def test_no_code_turns_a_refusal_into_a_commands_error_by_itself():
    handlers = []
    for path in (ROOT / "management" / "commands").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and node.type and "Refused" in ast.unparse(node.type):
                handlers.append((path.name, ast.unparse(node.body[0])))
    assert not [handler for handler in handlers if "CommandError" in handler[1]]
