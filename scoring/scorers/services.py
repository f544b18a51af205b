"""The services that a board may ask for scores: how they are reached, and the scorers that ask them."""

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

from scoring.scorers.base import Cost, ScorerUnavailable
from scoring.scorers.declarations import Caveat, ScorerDeclaration, Surroundings
from scoring.scorers.moderation import (
    AzureSafetyScorer,
    OpenAIModerationScorer,
    azure_problem,
    is_snapshot,
    openai_problem,
)
from scoring.scorers.perspective import PUBLIC_API, PerspectiveScorer, end_of, unavailable
from scoring.scorers.service import ServiceAccess

PERSPECTIVE, OPENAI, AZURE, JUDGE = "PERSPECTIVE", "OPENAI_MODERATION", "AZURE_CONTENT_SAFETY", "JUDGE"
# By what the names of its settings begin with: where the service answers unless a setting says otherwise.
ADDRESSES = {PERSPECTIVE: PUBLIC_API, OPENAI: "https://api.openai.com", AZURE: "", JUDGE: ""}
FREE = (PERSPECTIVE, OPENAI)
SERVICE_KEYS = tuple(f"{prefix}_API_KEY" for prefix in ADDRESSES)  # the settings that are secrets
ACCESS_SETTINGS = ("API_KEY", "URL", "REQUESTS_PER_SECOND", "USD_PER_1000_TEXTS")


def read_access(read: Callable[[str], Any]) -> dict[str, ServiceAccess]:
    """How each service is reached, by what its settings begin with.

    read: the value of a setting, as PERSPECTIVE_API_KEY; None or "" where it is not set. Raises ValueError where a
    quota or a fee is no number.
    """
    services = {}
    for prefix, address in ADDRESSES.items():
        key, url, rate, fee = (read(f"{prefix}_{name}") for name in ACCESS_SETTINGS)
        usd = 0.0 if prefix in FREE else None if fee in (None, "") else float(fee)
        services[prefix] = ServiceAccess(key or "", url or address, float(rate or 1.0), usd)
    return services


def access_in(prefix: str, surroundings: Surroundings) -> ServiceAccess:
    """How the service is reached from there."""
    return surroundings.services.get(prefix, ServiceAccess(url=ADDRESSES[prefix]))


def service_options(prefix: str, surroundings: Surroundings) -> dict[str, Any]:
    """The options of a scorer that asks the service."""
    access = access_in(prefix, surroundings)
    return {"access": access, "epoch": surroundings.epoch, "replies": surroundings.replies}


def service_cost(prefix: str, requests: int, _choice: str, surroundings: Surroundings) -> Cost:
    """What a text costs that takes so many requests."""
    return access_in(prefix, surroundings).cost(requests)


def _perspective_problem(_choice: str, surroundings: Surroundings) -> ScorerUnavailable | None:
    return unavailable(access_in(PERSPECTIVE, surroundings))


def _perspective_end(_choice: str, surroundings: Surroundings) -> date | None:
    return end_of(access_in(PERSPECTIVE, surroundings))


def _openai_caveats(model: str) -> tuple[Caveat, ...]:
    return () if is_snapshot(model) else (Caveat.UNVERSIONED,)


def _openai_problem(model: str, surroundings: Surroundings) -> ScorerUnavailable | None:
    return openai_problem(model, access_in(OPENAI, surroundings))


def _azure_problem(api_version: str, surroundings: Surroundings) -> ScorerUnavailable | None:
    return azure_problem(api_version, access_in(AZURE, surroundings))


SERVICE_SCORERS = (
    ScorerDeclaration(
        "perspective",
        "Perspective",
        True,
        lambda _choice, **options: PerspectiveScorer(**options),
        (
            "Perspective is a service that changes without notice, and nobody outside can look into it: what it said "
            "of a text cannot be had again once it says otherwise. It ends with 2026.",
        ),
        options=partial(service_options, PERSPECTIVE),
        problem=_perspective_problem,
        cost=partial(service_cost, PERSPECTIVE, 1),
        import_command="",
        caveats=lambda _choice: (Caveat.UNVERSIONED,),
        ends=_perspective_end,
    ),
    ScorerDeclaration(
        "openai-moderation:MODEL",
        "OpenAI moderation",
        True,
        OpenAIModerationScorer,
        (
            "OpenAI moderation finds what breaks OpenAI's rules of use, which is not the same as toxicity. Nobody "
            "outside can look into it.",
        ),
        options=partial(service_options, OPENAI),
        problem=_openai_problem,
        cost=partial(service_cost, OPENAI, 1),
        import_command="",
        caveats=_openai_caveats,
    ),
    ScorerDeclaration(
        "azure-content-safety:API_VERSION",
        "Azure content safety",
        True,
        AzureSafetyScorer,
        (
            "Azure content safety has four severities a category and nothing between them (0, 2, 4 and 6, here divided "
            "by 6): its averages are of steps. The api-version names the form of its answers, not the model behind it.",
        ),
        options=partial(service_options, AZURE),
        problem=_azure_problem,
        cost=partial(service_cost, AZURE, 1),
        import_command="",
        caveats=lambda _choice: (Caveat.UNVERSIONED,),
    ),
)
