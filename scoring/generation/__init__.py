"""Continuations of prompts: sampled by a language model that runs here, or requested from a completions server.

from scoring.generation import PROTOCOLS, continuations
from scoring.language_models import load

by_prompt = continuations(load("folder", path, revision), prompts, PROTOCOLS["rtp"])  # k of each prompt

The engine, and torch with it, is imported at its first use.
"""

from typing import TYPE_CHECKING

from scoring.generation.answers import answers_table
from scoring.generation.chat_server import ChatService, server_answers
from scoring.generation.continuation import Continuation, Finish, continuations_table
from scoring.generation.protocols import (
    CHAT_PROTOCOLS,
    PROTOCOLS,
    ChatSettings,
    GenerationSettings,
    UnsupportedKind,
    UnsupportedRules,
    settings_of,
)
from scoring.generation.server import server_continuations
from scoring.lazy import import_lazily

if TYPE_CHECKING:
    from scoring.generation.engine import continuations
    from scoring.generation.statements import with_log_perplexities

__getattr__ = import_lazily(__name__, {"engine": ("continuations",), "statements": ("with_log_perplexities",)})

__all__ = [
    "CHAT_PROTOCOLS",
    "PROTOCOLS",
    "ChatService",
    "ChatSettings",
    "Continuation",
    "Finish",
    "GenerationSettings",
    "UnsupportedKind",
    "UnsupportedRules",
    "answers_table",
    "continuations",
    "continuations_table",
    "server_answers",
    "server_continuations",
    "settings_of",
    "with_log_perplexities",
]
