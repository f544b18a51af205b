"""Continuations of prompts: sampled by a language model that runs here, or requested from a completions server.

from scoring.generation import PROTOCOLS, continuations
from scoring.language_models import load

by_prompt = continuations(load("folder", path, revision), prompts, PROTOCOLS["rtp"])  # k of each prompt

The engine, and torch with it, is imported at its first use.
"""

from typing import TYPE_CHECKING

from scoring.generation.continuation import Continuation, Finish, continuations_table
from scoring.generation.protocols import PROTOCOLS, GenerationSettings, UnsupportedKind
from scoring.generation.server import server_continuations
from scoring.lazy import import_lazily

if TYPE_CHECKING:
    from scoring.generation.engine import continuations
    from scoring.generation.statements import with_log_perplexities

__getattr__ = import_lazily(__name__, {"engine": ("continuations",), "statements": ("with_log_perplexities",)})

__all__ = [
    "PROTOCOLS",
    "Continuation",
    "Finish",
    "GenerationSettings",
    "UnsupportedKind",
    "continuations",
    "continuations_table",
    "server_continuations",
    "with_log_perplexities",
]
