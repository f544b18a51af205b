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
class LogProvenance:
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
    provenance: LogProvenance
    matched: Matched


def differences(output: ToolOutput, settings: "GenerationSettings") -> list[str]:
    """Which parameters of a protocol a log differs in, or does not say, a sentence each; none where all agree."""
    provenance, decoding = output.provenance, output.provenance.decoding
    pairs = (
        ("k, continuations of each prompt", decoding.k, settings.k),
        ("temperature", decoding.temperature, settings.temperature),
        ("top-p", decoding.top_p, settings.top_p),
        ("top-k, where 0 is no limit", decoding.top_k or 0, settings.top_k),
        ("max new tokens", decoding.max_new_tokens, settings.max_new_tokens),
    )
    sentences = [
        _difference(name, log_value, protocol_value)
        for name, log_value, protocol_value in pairs
        if log_value != protocol_value
    ]
    if decoding.stop:
        count = len(decoding.stop)
        sentences.append(f"stop sequences: {count} in the log, none in this protocol; texts may end sooner.")
    prompts = (
        (provenance.chat, "them as chat messages; this protocol gives it texts to go on from."),
        (provenance.reworded, f"{provenance.reworded:,} of them with other words around them."),
        (output.matched.but_for_whitespace, f"{output.matched.but_for_whitespace:,} of them with other whitespace."),
    )
    return sentences + [f"prompts: the model got {description}" for differs, description in prompts if differs]


def _difference(name: str, log_value: float | None, protocol_value: float) -> str:
    says = "the log does not say" if log_value is None else f"{log_value:g} in the log"
    return f"{name}: {says}, {protocol_value:g} in this protocol."
