"""Models behind a server that speaks OpenAI's interface: the address, the requests, and what a failure means.

server = CompletionsServer("http://127.0.0.1:8000/v1", "name-of-the-model")
with open_session(server) as session:
    answer = session.ask("completions", {"prompt": "Once", ...}, read=lambda answer: answer["choices"])
"""

from scoring.served.allowance import Allowance
from scoring.served.identity import Identity, describe_identity, identity_of_answer
from scoring.served.transport import (
    CompletionsServer,
    PromptRefusedError,
    ServerRefused,
    ServerSession,
    ServerUnavailable,
    ServiceChanged,
    UselessError,
    open_session,
)

__all__ = [
    "Allowance",
    "CompletionsServer",
    "Identity",
    "PromptRefusedError",
    "ServerRefused",
    "ServerSession",
    "ServerUnavailable",
    "ServiceChanged",
    "UselessError",
    "describe_identity",
    "identity_of_answer",
    "open_session",
]
