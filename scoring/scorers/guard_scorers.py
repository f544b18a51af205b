"""The declarations of guard models as scorers: run in this process, or behind a server."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urldefrag

from scoring.refusals import Refused
from scoring.scorers.base import Cost, Scorer, ScorerUnavailable
from scoring.scorers.declarations import Caveat, ScorerDeclaration, Surroundings, describe_terms
from scoring.scorers.guards import GuardDeclaration, declared_guards
from scoring.scorers.replies import ReplyStore
from scoring.served import CompletionsServer

GUARD, GUARD_SERVER = "guard:", "guard-server:"  # what names of such scorers begin with
MEANING = (
    "A score is the probability of the harmful verdicts of the guard as a share of that of all its verdicts; of a "
    "category, that the guard would name it first."
)


def read_guard_servers(
    addresses: Mapping[str, str], find_key: Callable[[str], str | None], concurrency: int = 8
) -> dict[str, CompletionsServer]:
    """The servers at `addresses`, by the guard that runs there, as GUARD_SERVERS names them.

    addresses: each followed by # and the server's name of the model where that is not the hub's id. find_key: the key
    for an address. Raises Refused for a guard that is not declared, or what is no address.
    """
    guards = declared_guards()
    servers = {}
    for name, address in addresses.items():
        if name not in guards:
            raise Refused(f"GUARD_SERVERS: there is no guard {name!r}; use {', '.join(guards)}")
        url, model = urldefrag(address)
        model = model or guards[name].hub_id
        try:
            servers[name] = CompletionsServer(url, model, key=find_key(url), concurrency=concurrency)
        except Refused as error:
            raise Refused(f"GUARD_SERVERS, {name}: {error}") from error
    return servers


# A guard needs torch, which is imported when the first of them is built: pages that name scorers load none.
def _declare(guard: GuardDeclaration) -> ScorerDeclaration:
    def build(_choice: str, **options: Any) -> Scorer:
        scorer: Scorer = import_module("scoring.scorers.guard_model").GuardScorer(guard, **options)
        return scorer

    limits = (MEANING, *guard.limits, describe_terms(guard.languages, guard.licence))
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
        return ScorerUnavailable(
            f'{name} has no server: name its address in GUARD_SERVERS, as in {{"{name}": "http://127.0.0.1:8000/v1"}}'
        )
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
