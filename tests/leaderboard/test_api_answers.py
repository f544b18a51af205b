"""What answers of the API are made of: pages of lists, errors of every status, and kinds in words. Without a board."""

import json
from datetime import date
from typing import Literal

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from leaderboard.api.front import complete, front, many_parameters, too_many
from leaderboard.api.guide import describe_kind, read_guide
from leaderboard.api.problems import _describe_fault, _remedy, refuse
from leaderboard.api.reading import Span, page
from scoring.refusals import WHOLE, Missing, Refused

pytestmark = pytest.mark.either_database

ADDRESS = "http://testserver/api/v1/models"


def addresses(count: int, limit: int, offset: int) -> tuple[str | None, str | None]:
    request = RequestFactory().get("/api/v1/models", {"search": "a b", "offset": str(offset)})
    values = page(request, count, Span(limit=limit, offset=offset))
    assert values["count"] == count
    return values["next"], values["previous"]


@pytest.mark.parametrize(
    ("count", "limit", "offset", "after", "before"),
    [
        (0, 10, 0, None, None),
        (10, 10, 0, None, None),
        (11, 10, 0, 10, None),
        (30, 10, 10, 20, 0),
        (20, 10, 10, None, 0),
        (30, 10, 5, 15, 0),
        (30, 10, 25, None, 15),
        (30, 10, 500, None, 20),  # beyond the end: back to the last page
    ],
)
def test_a_page_of_a_list_leads_to_those_beside_it(count, limit, offset, after, before):
    links = [
        None if place is None else f"{ADDRESS}?search=a+b&offset={place}&limit={limit}" for place in (after, before)
    ]
    assert list(addresses(count, limit, offset)) == links


def error_of(response: HttpResponse) -> dict[str, str | None]:
    content = json.loads(response.content)
    assert content["status"] == response.status_code
    [error] = content["errors"]
    return error


def answer_to(response: HttpResponse, method: str = "GET", **headers: str) -> HttpResponse:
    request = RequestFactory().generic(method, "/api/v1/models", headers=headers)
    return complete(request, lambda _request: response)


@pytest.mark.parametrize(
    ("response", "method", "error"),
    [
        (
            HttpResponse("<h1>", status=404),
            "GET",
            {
                "field": None,
                "value": None,
                "message": "There is nothing at this address.",
                "remedy": "GET /api/v1/openapi.json describes every address there is, and the page /api/ explains "
                "them.",
            },
        ),
        (
            HttpResponse(status=405, headers={"Allow": "GET"}),
            "POST",
            {
                "field": None,
                "value": "POST",
                "message": "This address does not accept POST.",
                "remedy": "Use GET, HEAD, OPTIONS.",
            },
        ),
        (
            HttpResponse(status=405, headers={"Allow": "POST"}),
            "DELETE",
            {
                "field": None,
                "value": "DELETE",
                "message": "This address does not accept DELETE.",
                "remedy": "Use POST, OPTIONS.",
            },
        ),
        (
            HttpResponse(status=416, headers={"Content-Range": "bytes */10"}),
            "GET",
            {
                "field": "Range",
                "value": "bytes=90-",
                "message": "The file has no such bytes.",
                "remedy": "Content-Range says how many it has: ask for less.",
            },
        ),
        (
            HttpResponse(status=503, headers={"Retry-After": "7"}),
            "GET",
            {
                "field": None,
                "value": None,
                "message": "The board makes as many answers as it can, and this one would take too long.",
                "remedy": "Try again in 7 s. Send If-None-Match for what you already have.",
            },
        ),
        (
            HttpResponse(status=503),
            "GET",
            {
                "field": None,
                "value": None,
                "message": "The board could not answer: Service Unavailable.",
                "remedy": "Try again later; if that does not help, tell the operators of the board.",
            },
        ),
    ],
)
def test_an_error_that_was_no_json_is_said_as_the_api_says_errors(response, method, error):
    headers = {name: value for name, value in response.headers.items() if name != "Content-Type"}
    answer = answer_to(response, method, Range="bytes=90-")
    assert error_of(answer) == error
    assert answer["Content-Type"] == "application/json"
    assert answer["Vary"] == "Authorization"
    for name, value in headers.items():
        assert answer[name].startswith(value), name


@pytest.mark.parametrize("status", [399, 400])
def test_errors_in_json_and_answers_that_are_no_errors_stay_as_they_are(status):
    words = HttpResponse("words", status=status)
    json_answer = HttpResponse("{}", status=status, content_type="application/json; charset=utf-8")
    assert answer_to(json_answer).content == b"{}"
    assert (answer_to(words).content == b"words") is (status < 400)


def test_head_has_the_headers_of_get_and_no_body():
    methods = []

    def get(request):
        methods.append(request.method)
        return HttpResponse("words")

    answer = complete(RequestFactory().head("/api/v1/models"), get)
    assert (methods, answer.content, answer["Content-Length"]) == (["GET"], b"", "5")
    whole = complete(RequestFactory().get("/api/v1/models"), get)
    assert (whole.content, "Content-Length" in whole) == (b"words", False)
    stream = answer_to(StreamingHttpResponse([b"part"]), "HEAD")
    assert b"".join(stream.streaming_content) == b"part"


def test_other_origins_may_ask_before_they_read_and_pages_are_not_touched():
    answer = front(lambda _request: HttpResponse("a page"))
    preflight = answer(RequestFactory().options("/api/v1/models"))
    assert preflight.status_code == 204
    assert dict(preflight.headers) == {
        "Content-Type": "text/html; charset=utf-8",
        "Access-Control-Allow-Methods": "GET, HEAD",
        "Access-Control-Allow-Headers": "If-None-Match, If-Range, Range",
        "Access-Control-Max-Age": "86400",
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "ETag, Content-Range, Accept-Ranges, Retry-After",
    }
    untouched = answer(RequestFactory().options("/models/"))
    assert (untouched.content, list(untouched.headers)) == (b"a page", ["Content-Type"])


def test_who_asks_too_often_or_for_too_much_is_told_what_to_do():
    late = too_many(12)
    assert (late.status_code, late["Retry-After"]) == (429, "12")
    assert error_of(late) == {
        "field": None,
        "value": None,
        "message": "This minute brought more requests than one reader may make.",
        "remedy": "Wait 12 s. Send a token for a higher limit, and If-None-Match for what you already have.",
    }
    assert many_parameters().status_code == 400
    assert error_of(many_parameters()) == {
        "field": None,
        "value": None,
        "message": "The address has more than 1,000 parameters.",
        "remedy": "Leave out those that nothing here reads.",
    }


def test_what_a_service_refuses_names_each_field_and_what_to_do():
    refusal = Refused("Too long.")
    refusal.problems = {"name": ["Too long.", "Not seen."], WHOLE: ["Sent twice."]}
    several = refuse(refusal)
    assert several.status_code == 422
    correct = "Correct it and send it again: nothing was stored."
    assert json.loads(several.content)["errors"] == [
        {"field": "name", "value": None, "message": "Too long.", "remedy": correct},
        {"field": "name", "value": None, "message": "Not seen.", "remedy": correct},
        {"field": None, "value": None, "message": "Sent twice.", "remedy": correct},
    ]
    absent = refuse(Missing.of_value("slug", "n" * 300, "No such model."))
    assert absent.status_code == 404
    assert error_of(absent) == {
        "field": "slug",
        "value": "n" * 200,
        "message": f"slug = {'n' * 300!r}: No such model.",
        "remedy": "Use one of those that the message names.",
    }


class Sent(BaseModel):
    number: int = Field(ge=1, le=9)
    name: str = Field(max_length=3, pattern="^[a-z]*$")
    day: date
    is_new: bool
    kind: Literal["causal", "masked"]


GOOD = {"number": 1, "name": "abc", "day": "2026-11-21", "is_new": True, "kind": "causal"}


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"number": 0}, "Send 1 or more."),
        ({"number": 10}, "Send 9 or less."),
        ({"number": "many"}, "Send a whole number, as in 2."),
        ({"name": "abcd"}, "Send at most 3 characters."),
        ({"name": "A"}, "Send what the pattern ^[a-z]*$ allows."),
        ({"name": 5}, "See /api/ for what can be sent."),
        ({"day": "yesterday"}, "Send a day, as in 2026-11-21."),
        ({"is_new": "perhaps"}, "Send true or false."),
        ({"kind": "small"}, "Send one of 'causal' or 'masked'."),
        ({"kind": ...}, "Send it."),
    ],
)
def test_a_value_that_is_not_as_it_should_be_comes_with_what_to_send(changes, remedy):
    values = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
    with pytest.raises(ValidationError) as refusal:
        TypeAdapter(Sent).validate_python(values)
    assert [_remedy(error) for error in refusal.value.errors()] == [remedy]


def test_a_wrong_parameter_is_named_with_what_was_sent_there():
    request = RequestFactory().get("/api/v1/models", {"limit": "0" * 300})
    error = {"loc": ("query", "limit"), "msg": "Too small", "type": "greater_than_equal", "ctx": {"ge": 1}}
    assert _describe_fault(request, error).model_dump() == {
        "field": "limit",
        "value": "0" * 200,
        "message": "Too small.",
        "remedy": "Send 1 or more.",
    }
    in_body = _describe_fault(request, {"loc": ("body", "model", "limit"), "msg": "Wrong", "type": "missing"})
    assert (in_body.field, in_body.value) == ("model.limit", None)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "format": "date"}, "day"),
        ({"type": "string", "format": "date-time"}, "time"),
        ({"type": "string", "format": "binary"}, "bytes"),
        ({"type": "string", "format": "email"}, "text"),
        ({"type": "integer"}, "whole number"),
        ({"type": "number"}, "number"),
        ({"type": "array"}, "list"),
        ({"type": "array", "items": {"type": "integer"}}, "list of whole number"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number or null"),
        ({"allOf": [{"type": "boolean"}]}, "boolean"),
        ({"enum": ["", "causal", "masked"]}, "causal, masked"),
        ({"const": "public"}, "public"),
        ({"$ref": "#/components/schemas/ReportedMeasure"}, "ReportedMeasure"),
        ({}, "anything"),
    ],
)
def test_what_a_field_holds_is_said_in_words(schema, words):
    assert describe_kind(schema) == words


def test_the_guide_says_of_an_operation_what_it_takes_and_answers():
    operations = {one.path: one for _, group in read_guide().groups for one in group if one.method == "GET"}
    models = operations["/api/v1/models"]
    fields = {field.name: (field.kind, field.usual, field.place) for field in models.parameters}
    assert fields["limit"] == ("whole number", "100", "query")
    assert fields["offset"] == ("whole number", "0", "query")
    assert fields["search"] == ("text", "", "query")
    assert {field.name: field.about for field in models.parameters}["offset"] == "Items before the page."
    model = operations["/api/v1/models/{slug}"]
    assert [(field.name, field.place, field.about) for field in model.parameters] == [("slug", "path", "Of a model.")]
    assert operations["/api/v1/artefacts/{sha256}"].answer not in ("", "anything")
    page_kind = next(kind for kind in read_guide().kinds if kind.name == "ReportedMeasure")
    assert [(field.name, field.kind) for field in page_kind.fields][:4] == [
        ("key", "text"),
        ("label", "text"),
        ("direction", "text or null"),
        ("neutral", "number or null"),
    ]
    assert [kind.name for kind in read_guide().kinds] == sorted(read_guide().names)
    assert not read_guide().names & {"Input", "Span"}
