"""Errors, all of one shape: which field, which value, what is wrong, and what to do."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from pydantic import Field

from scoring.refusals import WHOLE, Missing, Refused

USE_ANOTHER = "Use one of those that the message names."
CORRECT = "Correct it and send it again: nothing was stored."
MOST_SAID = 200  # characters of a value that is not as it should be


class Fault(Schema):
    """One thing that is wrong with a request."""

    field: str | None = Field(description="The parameter or header that it is about; null where it is about none.")
    value: str | None = Field(description="What was sent there.")
    message: str = Field(description="What is wrong with it.")
    remedy: str = Field(description="What to do.")


class ProblemDetails(Schema):
    """Why there is no answer."""

    status: int
    errors: list[Fault]


ANY = {frozenset({401, 404, 422, 429}): ProblemDetails}  # what every operation may answer with


def shorten_value(value: object) -> str | None:
    """A value as it was sent, cut where it is long."""
    return None if value is None else str(value)[:MOST_SAID]


def problem(status: int, *faults: Fault) -> HttpResponse:
    """The answer that says what is wrong."""
    return JsonResponse(ProblemDetails(status=status, errors=list(faults)).model_dump(), status=status)


def refuse_stranger(message: str) -> HttpResponse:
    """Answer 401: the client must send a token."""
    remedy = "Make a token at /accounts/tokens/ and send it as `Authorization: Bearer plumb_...`."
    response = problem(401, Fault(field="Authorization", value=None, message=message, remedy=remedy))
    response["WWW-Authenticate"] = "Bearer"
    return response


def handle(api: NinjaAPI) -> None:
    """Make the API answer in this shape."""
    api.add_exception_handler(Refused, _answer_refused)
    api.add_exception_handler(Http404, _no_such_page)
    api.add_exception_handler(ValidationError, _answer_invalid)
    api.add_exception_handler(AuthenticationError, lambda _request, _error: refuse_stranger("This needs an API token."))
    api.add_exception_handler(HttpError, _answer_http_error)


def refuse(refusal: Refused) -> HttpResponse:
    """The answer to what a service refused: 404 where it names what does not exist, else 422."""
    is_missing = isinstance(refusal, Missing)
    remedy = (
        "Use one of those that the message names."
        if is_missing
        else "Correct it and send it again: nothing was stored."
    )
    return problem(
        404 if is_missing else 422,
        *(
            Fault(
                field=None if name == WHOLE else name,
                value=shorten_value(refusal.value),
                message=text,
                remedy=refusal.remedy or remedy,
            )
            for name, texts in refusal.problems.items()
            for text in texts
        ),
    )


def _answer_refused(_request: HttpRequest, error: Any) -> HttpResponse:
    return refuse(error)


def _no_such_page(_request: HttpRequest, error: Any) -> HttpResponse:
    return problem(404, nothing_here(str(error)))


def nothing_here(message: str = "There is nothing at this address.") -> Fault:
    """What is wrong with an address that leads nowhere."""
    remedy = "GET /api/v1/openapi.json describes every address there is, and the page /api/ explains them."
    return Fault(field=None, value=None, message=message, remedy=remedy)


def _answer_http_error(_request: HttpRequest, error: Any) -> HttpResponse:
    return problem(error.status_code, Fault(field=None, value=None, message=str(error), remedy="See /api/."))


def _answer_invalid(request: HttpRequest, error: Any) -> HttpResponse:
    return problem(422, *(_describe_fault(request, fault) for fault in error.errors))


def _describe_fault(request: HttpRequest, error: dict[str, Any]) -> Fault:
    """What is wrong with one parameter, in words that name it."""
    source, *path = error["loc"]
    field = ".".join(map(str, path))
    raw_value: object = None
    if source == "query":
        raw_value = request.GET.get(field)
    elif source == "path" and request.resolver_match:
        raw_value = request.resolver_match.kwargs.get(field)
    return Fault(field=field, value=shorten_value(raw_value), message=f"{error['msg']}.", remedy=_remedy(error))


def _remedy(error: dict[str, Any]) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return "Send it."
        case "greater_than_equal":
            return f"Send {context['ge']} or more."
        case "less_than_equal":
            return f"Send {context['le']} or less."
        case "string_too_long":
            return f"Send at most {context['max_length']} characters."
        case "enum" | "literal_error":
            return f"Send one of {context['expected']}."
        case "string_pattern_mismatch":
            return f"Send what the pattern {context['pattern']} allows."
        case kind if kind.startswith("int"):
            return "Send a whole number, as in 2."
        case kind if kind.startswith("date"):
            return "Send a day, as in 2026-11-21."
        case kind if kind.startswith("bool"):
            return "Send true or false."
    return "See /api/ for what can be sent."
