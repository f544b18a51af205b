"""What is said of a model: the same value gets the same answer by every way, and each field travels through all."""

import csv
import io
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.core.exceptions import ValidationError as DjangoValidationError
from django.urls import reverse
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from leaderboard.api.submissions import HubModel
from leaderboard.card.fields import Count, Day, Notes, Words, show_refusal
from leaderboard.card.form import (
    CARD,
    FIELDS,
    Card,
    as_json,
    clean_field,
    clean_or_empty,
    columns_of,
    describe_facts,
)
from leaderboard.exchange.load import check_card
from leaderboard.models import LanguageModel, Submission
from leaderboard.operations.admin import CardForm
from leaderboard.submissions.forms.hub import HubForm
from leaderboard.submissions.forms.outputs import OutputsForm, ToolForm
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.submissions.services.workspace import clean_card
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL

pytestmark = pytest.mark.django_db

REFUSED = "refused"
NAMED = {"name": "A model"}
Answer = Any  # the value as the card keeps it, or REFUSED


def answer_of(form: Card, name: str) -> Answer:
    form.full_clean()
    return REFUSED if name in form.errors else form.cleaned_data[name]


def by_hub(name: str, value: str) -> Answer:
    return answer_of(HubForm({**NAMED, "hub_id": "a/b", name: value}), name)


def by_outputs(name: str, value: str) -> Answer:
    return answer_of(OutputsForm({**NAMED, name: value}), name)


def by_tool(name: str, value: str) -> Answer:
    return answer_of(ToolForm({**NAMED, name: value}), name)


def by_api(name: str, value: str) -> Answer:
    sent: Any = value
    if isinstance(CARD[name], Count):  # numbers are numbers there
        if not (value.isascii() and value.isdecimal()):
            return by_hub(name, value)
        sent = int(value)
    try:
        body = HubModel.model_validate({**NAMED, "hub_id": "a/b", name: sent})
    except ValidationError:
        return REFUSED
    return answer_of(HubForm(body.model_dump(exclude_unset=True)), name)


def by_correcting_or_returning(name: str, value: str) -> Answer:
    submission = Submission(payload={"name": "A model"}, form="outputs", submitter_id=1)
    try:
        return clean_card({**NAMED, name: value}, submission)[name]
    except SubmissionRefused as refused:
        return REFUSED if list(refused.problems) == [name] else refused.problems


def by_admin(name: str, value: str) -> Answer:
    model = LanguageModel(kind="causal", source="uploaded", slug="a")
    return answer_of(CardForm({**NAMED, name: value}, instance=model), name)


def by_import(name: str, value: str) -> Answer:
    try:
        return check_card({**NAMED, name: value}, "row 1")[name]
    except Refused as refused:
        return REFUSED if f"row 1, field {name}: " in str(refused) else str(refused)


WAYS: list[Callable[[str, str], Answer]] = [
    by_hub,
    by_outputs,
    by_tool,
    by_api,
    by_correcting_or_returning,
    by_admin,
    by_import,
]
texts = st.one_of(
    st.text(max_size=20),
    st.text(st.sampled_from("a1 =+-@\t\n\r\u202e\u00a0\u3000Ⅻ\u0301…"), max_size=6),
    st.integers(100, 2100).map(lambda length: "n" * length),
    st.integers(-2, 2**40).map(str),
    st.dates().map(date.isoformat),
)


@pytest.mark.slow
@settings(max_examples=150)
@given(name=st.sampled_from(FIELDS), value=texts)
def test_the_same_value_gets_the_same_answer_by_each_way(name, value):
    expected = by_outputs(name, value)
    if name == "name" and not value.strip():  # where it may stay empty, something else stands for it
        expected = REFUSED
        ways = [way for way in WAYS if way not in (by_hub, by_tool, by_api)]
    else:
        ways = WAYS
    assert {way.__name__: way(name, value) for way in ways} == {way.__name__: expected for way in ways}


@pytest.mark.slow
@settings(max_examples=100)
@given(name=st.sampled_from(FIELDS), value=texts)
def test_what_is_accepted_is_accepted_again_as_it_is_and_survives_a_payload(name, value):
    model = by_outputs(name, value)
    if model is not REFUSED:
        assert by_outputs(name, model) == model
        assert columns_of(as_json({name: model})) == {name: model}


@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        ("notes", "first\tsecond", "first\tsecond"),
        ("notes", "e\u0301", "é"),
        ("notes", "first\r\nsecond", "first\nsecond"),
        ("notes", "safe\u202etxt", REFUSED),
        ("notes", "n" * 2001, REFUSED),
        ("name", "n" * 150, "n" * 150),
        ("name", "n" * 201, REFUSED),
        ("name", "a\tb", REFUSED),
        ("name", "…", REFUSED),
        ("context", "4096", 4096),
        ("context", "0", REFUSED),
        ("context", "many", REFUSED),
        ("release_date", "2024-02-29", date(2024, 2, 29)),
        ("release_date", "29/02/2024", REFUSED),
        ("release_date", "2023-02-29", REFUSED),
        ("release_date", "1066-10-14", REFUSED),
        ("release_date", "2900-01-01", REFUSED),
    ],
)
def test_values_that_got_two_answers_get_one(name, value, answer):
    assert {way.__name__: way(name, value) for way in WAYS} == {way.__name__: answer for way in WAYS}


def test_every_field_of_the_card_is_a_column_that_is_as_long():
    for name, field in CARD.items():
        column = LanguageModel._meta.get_field(name)
        assert column.blank or field.required
        if not isinstance(field, Notes):
            assert getattr(field, "most", None) == column.max_length


def test_what_the_configuration_states_is_taken_and_nothing_else_can_be_said():
    model = LanguageModel(kind="causal", source="hub", context=1024)
    silent = Card(NAMED, configuration=model.configuration)
    assert silent.is_valid()
    assert silent.cleaned_data["context"] == 1024
    assert [field.name for field in silent.card_fields] == [name for name in FIELDS if name != "context"]
    wrong = Card({**NAMED, "context": "4096"}, configuration=model.configuration)
    assert wrong.problems == {"context": ["The model's configuration says 1,024: leave it empty."]}
    uploaded = LanguageModel(kind="causal", source="uploaded", context=1024)
    assert Card({**NAMED, "context": "4096"}, configuration=uploaded.configuration).is_valid()


@pytest.mark.slow
def test_both_facts_are_shown_filtered_sorted_and_exported(client, measured_board):
    LanguageModel.objects.filter(slug=CAUSAL).update(release_date="2024-05-01")
    model = LanguageModel.objects.get(slug=CAUSAL)
    page = client.get(model.get_absolute_url()).content.decode()
    assert "1 May 2024" in page
    assert f"{model.context:,} tokens" in page
    asked = {"metric": "safety-starter", "columns": "context,release_date", "sort": "-release_date"}
    whole = client.get(reverse("rankings"), asked).content.decode()
    assert re.search(r'<td class="date"[^>]*>2024-05-01</td>', whole)
    assert re.search(rf'<td class="num"[^>]*>{model.context}</td>', whole)
    for released, context, here in (("2024", "under-2k", True), ("unknown", "", False), ("2024", "over-128k", False)):
        narrow = client.get(reverse("rankings"), {**asked, "released": released, "context": context})
        assert (f'<th scope="row"><a class="name" href="{model.get_absolute_url()}"' in narrow.content.decode()) is here
    assert client.get(reverse("rankings"), {**asked, "released": "last year"}).status_code == 404
    rows = list(csv.DictReader(io.StringIO(client.get(reverse("export", args=["csv"]), asked).content.decode())))
    written = {(row["slug"], row["context"], row["release_date"]) for row in rows}
    assert (CAUSAL, str(model.context), "2024-05-01") in written
    known = client.get(f"/api/v1/models/{CAUSAL}").json()
    assert (known["context"], known["release_date"]) == (model.context, "2024-05-01")
    entries = client.get("/api/v1/metrics/safety-starter/standings").json()["items"]
    assert (model.context, "2024-05-01") in {(entry["context"], entry["release_date"]) for entry in entries}


def test_a_browser_takes_no_more_characters_than_a_line_may_have():
    line = Words(label="Name", most=80)
    assert line.widget.attrs["maxlength"] == 80
    assert line.clean("x" * 80) == "x" * 80
    with pytest.raises(DjangoValidationError, match="It has 81 characters: use 80 at most"):
        line.clean("x" * 81)


@pytest.mark.parametrize(("day", "is_refused"), [(date(2026, 3, 2), False), (date(2026, 3, 3), True)])
def test_a_day_that_has_come_somewhere_on_earth_is_not_in_the_future(monkeypatch, day, is_refused):
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))
    form = OutputsForm({**NAMED, "release_date": day.isoformat()})
    assert ("release_date" in form.errors) is is_refused


NAME = Words(label="Name", most=10, absence="Give it a name.")
NOTES = Notes(label="Notes", most=10)
CONTEXT = Count(label="Context", unit="tokens")
RELEASE = Day(label="Release date")
WRONG_COUNT = "Give a whole number from 1 to 2,147,483,647, or leave it empty."


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        (NAME, "", "Give it a name."),
        (NAME, None, "Give it a name."),
        (NAME, "=SUM(A1)", "It begins with =, as a spreadsheet's formula does: begin with a letter."),
        (NAME, "@home", "It begins with @, as a spreadsheet's formula does: begin with a letter."),
        (NAME, "…", "It has no letter and no digit: write it in words."),
        (NAME, "a" * 11, "It has 11 characters: use 10 at most."),
        (
            NAME,
            "a\u202e\u200b\u0007\u2066b",
            "It has characters that cannot be seen (U+0007, U+200B, U+202E): leave them out.",
        ),
        (NOTES, "n" * 1234, "It has 1,234 characters: use 10 at most."),
        (NOTES, "a\u0000b", "It has characters that cannot be seen (U+0000): leave them out."),
        (CONTEXT, "0", WRONG_COUNT),
        (CONTEXT, "2147483648", WRONG_COUNT),
        (CONTEXT, "many", WRONG_COUNT),
        (RELEASE, "1949-12-31", "Give a day from 1950-01-01 on, or leave it empty."),
        (RELEASE, "1 May 2024", "Give a day as in 2026-11-01, or leave it empty."),
        (
            RELEASE,
            "2900-01-01",
            "2900-01-01 is in the future: give the day on which it was published, or leave it empty.",
        ),
    ],
)
def test_a_field_says_what_is_wrong_and_what_to_do(field, value, problem):
    with pytest.raises(DjangoValidationError) as refusal:
        field.clean(value)
    assert refusal.value.messages == [problem]


@pytest.mark.parametrize(
    ("field", "value", "answer"),
    [
        (NAME, "  a \u00a0 b  ", "a b"),
        (NAME, "Ⅻ", "XII"),
        (NAME, "a" * 10, "a" * 10),
        (NAME, "a=b", "a=b"),
        (NAME, 12, "12"),
        (NOTES, None, ""),
        (NOTES, " a\r\n\tb ", "a\n\tb"),
        (NOTES, "=1", "=1"),
        (CONTEXT, "1", 1),
        (CONTEXT, "2147483647", 2147483647),
        (CONTEXT, "", None),
        (RELEASE, "1950-01-01", date(1950, 1, 1)),
        (RELEASE, date(2024, 5, 6), date(2024, 5, 6)),
        (RELEASE, None, None),
    ],
)
def test_a_field_takes_what_it_can_hold(field, value, answer):
    assert field.clean(value) == answer


def test_a_field_is_shown_with_its_unit_and_what_is_not_stated_is_said_to_be_so():
    model = LanguageModel(family="A", licence="", context=4096, release_date=date(2024, 5, 6))
    assert describe_facts(model) == [
        ("Family", "A"),
        ("Licence", "not stated"),
        ("Context length", "4,096 tokens"),
        ("Release date", "6 May 2024"),
    ]
    assert [text for _, text in describe_facts(LanguageModel())] == ["not stated"] * 4


def test_the_same_field_may_stay_empty_elsewhere_and_says_what_stands_for_it():
    optional = NAME.make_optional("The name of its repository.")
    assert (optional.clean(""), optional.help_text, optional.label) == ("", "The name of its repository.", "Name")
    assert NAME.required


def test_a_browser_shows_lines_for_notes_and_a_calendar_for_a_day():
    assert NOTES.widget.attrs == {"rows": 3, "cols": "40", "maxlength": 10}
    assert not NOTES.required
    assert RELEASE.widget.input_type == "date"
    assert RELEASE.widget.format_value(date(2024, 5, 6)) == "2024-05-06"


def test_what_a_stranger_or_a_terminal_states_is_cleaned_and_else_left_out_or_refused():
    assert clean_or_empty("licence", " MIT ") == clean_field("licence", " MIT ") == "MIT"
    assert clean_or_empty("licence", "=1") == ""
    with pytest.raises(Refused) as refusal:
        clean_field("licence", "…")
    assert str(refusal.value) == "licence = '…': It has no letter and no digit: write it in words."
    assert (refusal.value.field, refusal.value.value) == ("licence", "…")


def test_problems_of_a_service_stand_at_their_fields_or_above_all_and_no_others_do():
    form = Card({"name": "", "context": "many"})
    assert set(form.problems) == {"name", "context"}
    form.show({"licence": ["Unknown.", "Too new."], "hub_id": ["Gone."]})
    assert form.problems == {"licence": ["Unknown.", "Too new."], "__all__": ["Gone."]}
    refused = Card(NAMED)
    show_refusal(refused, Refused("Gone.", field="hub_id"))
    show_refusal(refused, Refused("Unknown.", field="licence"))
    assert refused.problems == {"__all__": ["Gone."], "licence": ["Unknown."]}


def test_the_fields_to_fill_in_are_in_order_and_the_short_ones_apart():
    form = Card(NAMED, configuration={"context": 1024})
    assert [field.name for field in form.card_fields] == ["name", "family", "licence", "release_date", "notes"]
    assert [field.name for field in form.facts] == ["family", "licence", "release_date"]
    same = Card({**NAMED, "context": "1024"}, configuration={"context": 1024})
    assert same.is_valid()
