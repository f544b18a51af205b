"""Errors, all of one shape: which field, which value, what is wrong, and what to do."""

import re
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from pydantic import Field

from leaderboard.services.tokens import TokenRefused

MOST_SAID = 200  # characters of a value that is not as it should be
NAMED = re.compile(r"(?P<field>\w+) = '?(?P<value>.*?)'?: ")  # how messages of services begin


class Fault(Schema):
    """One thing that is wrong with a request."""

    field: str | None = Field(description="The parameter or header that it is about; null where it is about none.")
    value: str | None = Field(description="What was sent there.")
    message: str = Field(description="What is wrong with it.")
    remedy: str = Field(description="What to do.")


class Problem(Schema):
    """Why there is no answer."""

    status: int
    errors: list[Fault]


ANY = {frozenset({401, 404, 422, 429}): Problem}  # what every operation may answer with


class NotHere(Exception):
    """The address names something that does not exist on this board."""

    def __init__(self, field: str, value: object, message: str, remedy: str) -> None:
        super().__init__(message)
        self.fault = Fault(field=field, value=said(value), message=message, remedy=remedy)


def not_here(error: ValueError, field: str, value: object, remedy: str) -> NotHere:
    """What a service has not found; `field`, `value` and `remedy` where its message does not begin with a field."""
    found = NAMED.match(str(error))
    if found:
        field, value, remedy = found["field"], found["value"], "Use one of those that the message names."
    return NotHere(field, value, str(error), remedy)


def said(value: object) -> str | None:
    """A value as it was sent, cut where it is long."""
    return None if value is None else str(value)[:MOST_SAID]


def problem(status: int, *faults: Fault) -> HttpResponse:
    """The answer that says what is wrong."""
    return JsonResponse(Problem(status=status, errors=list(faults)).model_dump(), status=status)


def unauthorised(message: str) -> HttpResponse:
    """The answer to whoever must say who they are."""
    remedy = "Make a token at /accounts/tokens/ and send it as `Authorization: Bearer plumb_...`."
    response = problem(401, Fault(field="Authorization", value=None, message=message, remedy=remedy))
    response["WWW-Authenticate"] = "Bearer"
    return response


def handle(api: NinjaAPI) -> None:
    """Make the API answer in this shape."""
    api.add_exception_handler(NotHere, lambda _request, error: problem(404, error.fault))
    api.add_exception_handler(Http404, _no_such_page)
    api.add_exception_handler(ValidationError, _invalid)
    api.add_exception_handler(TokenRefused, lambda _request, error: unauthorised(str(error)))
    api.add_exception_handler(AuthenticationError, lambda _request, _error: unauthorised("This needs an API token."))
    api.add_exception_handler(HttpError, _refused)


def _no_such_page(_request: HttpRequest, error: Exception) -> HttpResponse:
    return problem(404, nothing_here(str(error)))


def nothing_here(message: str = "There is nothing at this address.") -> Fault:
    """What is wrong with an address that leads nowhere."""
    remedy = "GET /api/v1/openapi.json describes every address there is, and the page /api/ explains them."
    return Fault(field=None, value=None, message=message, remedy=remedy)


def _refused(_request: HttpRequest, error: Any) -> HttpResponse:
    return problem(error.status_code, Fault(field=None, value=None, message=str(error), remedy="See /api/."))


def _invalid(request: HttpRequest, error: Any) -> HttpResponse:
    return problem(422, *(_fault(request, of) for of in error.errors))


def _fault(request: HttpRequest, error: dict[str, Any]) -> Fault:
    """What is wrong with one parameter, in words that name it."""
    source, *path = error["loc"]
    field = ".".join(map(str, path))
    sent: object = None
    if source == "query":
        sent = request.GET.get(field)
    elif source == "path" and request.resolver_match:
        sent = request.resolver_match.kwargs.get(field)
    return Fault(field=field, value=said(sent), message=f"{error['msg']}.", remedy=_remedy(error))


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
