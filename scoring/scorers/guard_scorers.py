"""The declarations of guard models as scorers: run in this process, or behind a server."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scoring.scorers.base import Cost, Scorer, ScorerUnavailable
from scoring.scorers.declarations import Caveat, ScorerDeclaration, Surroundings, describe_terms
from scoring.scorers.guards import GuardDeclaration, declared_guards
from scoring.scorers.replies import ReplyStore
from scoring.served import CompletionsServer

GUARD, GUARD_SERVER = "guard:", "guard-server:"  # what names of such scorers begin with


# A guard needs torch, which is imported when the first of them is built: pages that name scorers load none.
def _declare(guard: GuardDeclaration) -> ScorerDeclaration:
    def build(_choice: str, **options: Any) -> Scorer:
        scorer: Scorer = import_module("scoring.scorers.guard_model").GuardScorer(guard, **options)
        return scorer

    limits = (*guard.limits, describe_terms(guard.languages, guard.licence))
    return ScorerDeclaration(GUARD + guard.name, guard.title, False, build, limits, options=_options)


def _options(surroundings: Surroundings) -> dict[str, Any]:
    return {
        "folder": surroundings.folder if surroundings.folder.is_dir() else None,
        "endpoint": surroundings.hub_endpoint,
        "token": surroundings.hub_token,
        "may_fetch": surroundings.may_fetch,
    }


def _served(
    name: str,
    *,
    servers: Mapping[str, CompletionsServer] = MappingProxyType({}),
    epoch: str = "",
    replies: ReplyStore | None = None,
) -> Scorer:
    if problem := _find_problem(name, Surroundings(Path(), guard_servers=servers)):
        raise problem
    module = import_module("scoring.scorers.guard_server")
    scorer: Scorer = module.ServedGuardScorer(declared_guards()[name], servers[name], epoch=epoch, replies=replies)
    return scorer


def _served_options(surroundings: Surroundings) -> dict[str, Any]:
    return {
        "servers": surroundings.guard_servers,
        "epoch": surroundings.epoch,
        "replies": surroundings.replies,
    }


def _cost(name: str, _surroundings: Surroundings) -> Cost:
    """A request for each question; what a server takes for it is not declared."""
    guard = declared_guards().get(name)
    return Cost(requests=len(guard.questions) if guard else 1, seconds=0.0, usd=None)


def _find_problem(name: str, surroundings: Surroundings) -> ScorerUnavailable | None:
    if name not in declared_guards():
        return ScorerUnavailable(f"there is no guard {name!r}: use one of {', '.join(declared_guards())}")
    if name not in surroundings.guard_servers:
        return ScorerUnavailable(f"{name} has no server: name its address in GUARD_SERVERS, as deploy/README.md shows")
    return None


GUARDS = (
    *map(_declare, declared_guards().values()),
    ScorerDeclaration(
        f"{GUARD_SERVER}NAME",
        "Guard model on a server",
        True,
        _served,
        (
            "It is the guard of that name with its limits, as a server runs it: nobody here can check which weights "
            "answer, in which precision. Names of special tokens within a text are a reason not to ask about it.",
        ),
        options=_served_options,
        problem=_find_problem,
        cost=_cost,
        import_command="",
        caveats=lambda _name: (Caveat.UNVERSIONED,),
    ),
)
