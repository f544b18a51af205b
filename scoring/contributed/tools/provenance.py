"""Where the continuations in a tool's log come from, and how that differs from a protocol of ours."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from scoring.contributed.report import Matched

if TYPE_CHECKING:  # importing it loads torch
    from scoring.generation import GenerationSettings


@dataclass(frozen=True, slots=True)
class Decoding:
    """How continuations were drawn, as a log says; None where it does not. Greedy decoding is temperature 0."""

    k: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_new_tokens: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Provenance:
    """`model` as the tool names it; `made`: when, in ISO 8601; `reworded`: how many of our prompts the model got with
    other words around them; `chat`: whether as messages rather than as texts to go on from. None: the log does not say.
    """

    tool: str
    tool_version: str | None
    format: str
    task: str | None
    model: str | None
    made: str | None
    decoding: Decoding
    reworded: int = 0
    chat: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class ToolOutput:
    """The continuations of a log, as a table of the `continuations` schema, and where they come from."""

    table: pa.Table
    provenance: Provenance
    matched: Matched


def differences(provenance: Provenance, settings: "GenerationSettings") -> list[str]:
    """Which parameters of a protocol a log differs in, or does not say, a sentence each; none where all agree."""
    decoding = provenance.decoding
    pairs = (
        ("k", decoding.k, settings.k, "continuations of each prompt"),
        ("temperature", decoding.temperature, settings.temperature, ""),
        ("top-p", decoding.top_p, settings.top_p, ""),
        ("max new tokens", decoding.max_new_tokens, settings.max_new_tokens, ""),
    )
    found = [_difference(name, theirs, ours, unit) for name, theirs, ours, unit in pairs if theirs != ours]
    if (decoding.top_k or 0) != settings.top_k:
        found.append(_difference("top-k", decoding.top_k, settings.top_k, "(0: no limit)"))
    if decoding.stop:
        count = len(decoding.stop)
        found.append(f"stop sequences: the log has {count}, this protocol none; texts may end sooner.")
    if provenance.chat:
        found.append("prompts: the model got them as chat messages; this protocol gives it texts to go on from.")
    if provenance.reworded:
        found.append(f"prompts: the model got {provenance.reworded:,} of them with other words around them.")
    return found


def _difference(name: str, theirs: float | None, ours: float, unit: str) -> str:
    says = "the log does not say" if theirs is None else f"{theirs:g} in the log"
    return f"{name}: {says}, {ours:g} in this protocol{' ' if unit else ''}{unit}."
