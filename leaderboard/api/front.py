"""What every request to the API passes through: who asks, how often, from which page, and errors in one shape."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from leaderboard.api.limits import count_refused_token, seconds_to_wait, seconds_to_wait_before_tokens
from leaderboard.api.problems import Fault, nothing_here, problem, refuse_stranger, shorten_value
from leaderboard.people.authentication import user_of
from leaderboard.people.services.tokens import TokenRefused

ROOT = "/api/v1/"
JSON = "application/json"
READABLE = "ETag, Content-Range, Accept-Ranges, Retry-After"  # of other headers, scripts of other pages see nothing
KEPT = ("Allow", "Content-Range", "Accept-Ranges", "ETag", "Retry-After")  # headers of errors
MANY_PARAMETERS = (
    f"The address has more than {settings.DATA_UPLOAD_MAX_NUMBER_FIELDS:,} parameters.",
    "Leave out those that nothing here reads.",
)
Answer = Callable[[HttpRequest], HttpResponseBase]


def front(get_response: Answer) -> Answer:
    """Middleware: for addresses of the API; all others pass.

    Pages of any origin may read it, without cookies and without tokens: a token in a page of somebody else's is lost.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(ROOT):
            return get_response(request)
        if request.method == "OPTIONS":
            return readable_anywhere(preflight())
        return readable_anywhere(refusal(request) or complete(request, get_response))

    return answer


def preflight() -> HttpResponse:
    """What browsers ask before a page of another origin may read on condition."""
    return HttpResponse(
        status=204,
        headers={
            "Access-Control-Allow-Methods": "GET, HEAD",
            "Access-Control-Allow-Headers": "If-None-Match, If-Range, Range",
            "Access-Control-Max-Age": "86400",
        },
    )


def readable_anywhere(response: HttpResponseBase) -> HttpResponseBase:
    """Let pages of any origin read the answer."""
    response["Access-Control-Allow-Origin"] = "*"
    response["Access-Control-Expose-Headers"] = READABLE
    return response


def refusal(request: HttpRequest) -> HttpResponse | None:
    """The answer to who sent a token that is not good, or asks too often."""
    if "Authorization" in request.headers and (seconds := seconds_to_wait_before_tokens(request)):
        return too_many(seconds)
    try:
        owner = user_of(request)
    except TokenRefused as error:
        count_refused_token(request)
        return refuse_stranger(str(error))
    request.token_owner = owner  # type: ignore[attr-defined]
    seconds = seconds_to_wait(request, owner)
    return too_many(seconds) if seconds else None


def too_many(seconds: int) -> HttpResponse:
    """The answer to who asks too often, and has to wait so long."""
    message = "This minute brought more requests than one reader may make."
    remedy = f"Wait {seconds} s. Send a token for a higher limit, and If-None-Match for what you already have."
    response = problem(429, Fault(field=None, value=None, message=message, remedy=remedy))
    response["Retry-After"] = str(seconds)
    return response


def many_parameters() -> HttpResponse:
    """The answer to an address with more parameters than are read."""
    message, remedy = MANY_PARAMETERS
    return problem(400, Fault(field=None, value=None, message=message, remedy=remedy))


def complete(request: HttpRequest, get_response: Answer) -> HttpResponseBase:
    """The answer, with errors as JSON, and to HEAD without its body."""
    method = request.method
    if method == "HEAD":
        request.method = "GET"
    response = get_response(request)
    if response.status_code >= 400 and not response.get("Content-Type", "").startswith(JSON):
        response = as_problem(request, response)
    patch_vary_headers(response, ("Authorization",))
    if method == "HEAD" and isinstance(response, HttpResponse):
        response.setdefault("Content-Length", str(len(response.content)))
        response.content = b""
    return response


def as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponse:
    """An error that was put in words for people, or in none; what its headers say is kept."""
    headers = {name: response[name] for name in KEPT if name in response}
    match response.status_code:
        case 404:
            fault = nothing_here()
        case 405:
            headers["Allow"] += ", HEAD" * ("GET" in headers["Allow"]) + ", OPTIONS"
            message = f"This address does not accept {request.method}."
            fault = Fault(field=None, value=request.method, message=message, remedy=f"Use {headers['Allow']}.")
        case 416:
            message, remedy = "The file has no such bytes.", "Content-Range says how many it has: ask for less."
            fault = Fault(field="Range", value=shorten_value(request.headers["Range"]), message=message, remedy=remedy)
        case 503 if "Retry-After" in headers:
            message = "The board makes as many answers as it can, and this one would take too long."
            remedy = f"Try again in {headers['Retry-After']} s. Send If-None-Match for what you already have."
            fault = Fault(field=None, value=None, message=message, remedy=remedy)
        case _:
            message = f"The board could not answer: {response.reason_phrase}."
            remedy = "Try again later; if that does not help, tell the operators of the board."
            fault = Fault(field=None, value=None, message=message, remedy=remedy)
    answer = problem(response.status_code, fault)
    for name, value in headers.items():
        answer[name] = value
    return answer
