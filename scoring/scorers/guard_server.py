"""Guard models behind a server that speaks OpenAI's interface and says the likelihoods of tokens.

A guard with a template of its own is asked by /v1/chat/completions, and the server renders the template; the verdict is
the first word of the answer after the declared opening. One whose prompt is declared is asked by /v1/completions. A
server names the likeliest tokens alone: categories, which follow a verdict that it may not give, have no scores here.
"""

import hashlib
import math
import re
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from scoring.likelihood.served_tokens import names_special_token
from scoring.scorers.base import Cost, Progress, Scorer, ScorerUnavailable, Scores, fingerprint_of
from scoring.scorers.guards import TEXT, GuardDeclaration, GuardQuestion
from scoring.scorers.replies import Reply, ReplyStore
from scoring.served import (
    CompletionsServer,
    PromptRefusedError,
    ServerRefused,
    ServerSession,
    ServerUnavailable,
    ServiceChanged,
    UselessError,
    open_session,
)

CHAT, COMPLETIONS = "chat/completions", "completions"
MOST_TOKENS = 12  # of an answer: its opening and the verdict
TOP = 20  # of the likeliest tokens that a server is asked for: the most that vLLM and OpenAI name
TOLERANCE = 1e-3  # by which a verdict that is not among these may change a score
MOST_USELESS = 10  # texts without a usable answer, one after the other, before the server counts as unavailable
SPACE_MARKS = re.compile("[▁Ġ]")  # that some servers leave in a token
SPACES = " \t\r\n▁Ġ"

SPECIAL = "names a special token, which a server takes for the token"
REFUSED = "the server refuses it, as too long for its context or against its policy"
MISREAD = "the server's answer holds no likelihoods of tokens at the verdict"
UNDECIDED = "the likelihoods that the server names do not decide between the verdicts"


class ServedGuardScorer(Scorer):
    """Asks one request for each text and question. A text that gets no usable answer has a reason, and no score."""

    def __init__(
        self,
        guard: GuardDeclaration,
        server: CompletionsServer,
        *,
        epoch: str = "",
        replies: ReplyStore | None = None,
    ) -> None:
        """`replies` keeps answers, so that interrupted work goes on; `epoch` marks a version of what is served."""
        self.guard, self.server, self.epoch = guard, server, epoch
        verdict_names = {name for question in guard.questions for name in question.attributes}
        self.attributes = tuple(attribute for attribute in guard.attributes if attribute.name in verdict_names)
        self.cost = Cost(requests=len(guard.questions), seconds=0.0, usd=None)
        self._replies: ReplyStore = {} if replies is None else replies
        self._lock = threading.Lock()
        self._useless_count = 0  # of texts, one after the other

    def fingerprint(self) -> str:
        """Covers the server's address, its name of the model, the declaration of the guard, thresholds and epoch."""
        return fingerprint_of(
            scorer="guard-server",
            server=self.server.root,
            model=self.server.model,
            declaration=self.guard.digest(),
            attributes=[attribute.as_json() for attribute in self.attributes],
            epoch=self.epoch,
        )

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        fingerprint = self.fingerprint()
        keys = [hashlib.sha256(f"{fingerprint}\n{text}".encode()).hexdigest() for text in texts]
        requests = [(key, text) for key, text in zip(keys, texts, strict=True) if key not in self._replies]
        done_count = len(texts) - len(requests)
        try:
            with open_session(self.server) as session:
                answers = session.map(
                    lambda request: self._reply(session, *request), requests, lambda count: progress(done_count + count)
                )
        except (ServerRefused, ServerUnavailable, ServiceChanged) as error:
            raise ScorerUnavailable(f"{self.guard.title}: {error}") from error
        fresh = {key: answer for (key, _), answer in zip(requests, answers, strict=True)}
        replies = [fresh.get(key) or self._replies[key] for key in keys]
        nothing = [math.nan] * len(self.attributes)
        return Scores(
            values=np.array([reply.get("scores", nothing) for reply in replies], dtype=np.float32),
            reasons=tuple(reply.get("reason") for reply in replies),
            truncated=np.zeros(len(texts), dtype=bool),
        )

    def _reply(self, session: ServerSession, key: str, text: str) -> Reply:
        """The scores of a text, or the reason why it has none; kept unless another try may find scores.

        Raises ServerUnavailable where no text gets a usable answer.
        """
        try:
            reply = self._ask_all(session, text)
        except UselessError:
            with self._lock:
                self._useless_count += 1
                if self._useless_count == MOST_USELESS:
                    raise ServerUnavailable(f"{MISREAD}, for {MOST_USELESS} texts one after the other") from None
            return {"reason": MISREAD}
        with self._lock:
            self._useless_count = 0
            self._replies[key] = reply
        return reply

    def _ask_all(self, session: ServerSession, text: str) -> Reply:
        if names_special_token(text):
            return {"reason": SPECIAL}
        scores: list[float] = []
        for question in self.guard.questions:
            try:
                shares = self._ask(session, question, text)
            except PromptRefusedError:
                return {"reason": REFUSED}
            if shares is None:
                return {"reason": UNDECIDED}
            scores += question.score(shares)
        return {"scores": scores}

    def _ask(self, session: ServerSession, question: GuardQuestion, text: str) -> list[float] | None:
        if self.guard.prompt:
            body = {
                "prompt": self.guard.prompt.replace(TEXT, text) + question.opening,
                "max_tokens": 1,
                "logprobs": TOP,
                "add_special_tokens": False,  # the prompt writes them; known to vLLM, others ignore it
            }
            path = COMPLETIONS
        else:
            body = {"messages": self.guard.ask(text), "max_tokens": MOST_TOKENS, "logprobs": True, "top_logprobs": TOP}
            if question.options:
                body["chat_template_kwargs"] = dict(question.options)
            if not self.guard.generation_prompt:
                body["add_generation_prompt"] = False
            path = CHAT
        body |= {"model": self.server.model, "temperature": 0.0, "n": 1}

        def read(answer: Any) -> list[float] | None:
            logprobs = _logprobs_of(answer)
            tokens = _at_first_token(logprobs) if path == COMPLETIONS else _at_verdict(logprobs, question.opening)
            return None if tokens is None else find_shares(tokens, question.verdicts)

        return session.ask(path, body, read)


def find_shares(tokens: Sequence[tuple[str, float]], verdicts: Sequence[str]) -> list[float] | None:
    """The share of each verdict among all, of the likeliest tokens and their natural-log likelihoods.

    A verdict that is not among them is at most as likely as the last of them, and as what they leave over. Where that
    may change a share by more than TOLERANCE it is None, else that verdict counts as 0.
    """
    probabilities = [_probability(tokens, verdict, verdicts) for verdict in verdicts]
    total = sum(probability for probability in probabilities if probability is not None)
    absent_count = probabilities.count(None)
    rest = max(0.0, 1 - sum(math.exp(value) for _, value in tokens))
    most = absent_count * min(rest, min((math.exp(value) for _, value in tokens), default=1.0))
    if total <= 0 or most > TOLERANCE * total:
        return None
    return [(probability or 0.0) / total for probability in probabilities]


def _probability(tokens: Sequence[tuple[str, float]], verdict: str, verdicts: Sequence[str]) -> float | None:
    """The probability of the longest token that begins `verdict` and no other one; None where none does.

    Of two that differ by a space alone, it is the one with the space of the verdict.
    """
    matches = [
        (len(core), verdict.startswith(SPACE_MARKS.sub(" ", token)), value)
        for token, value in tokens
        if (core := token.strip(SPACES)) and [one for one in verdicts if one.strip().startswith(core)] == [verdict]
    ]
    return math.exp(max(matches)[-1]) if matches else None


def _logprobs_of(answer: Any) -> dict[str, Any]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise UselessError("the server's answer does not hold one choice")
    logprobs = choices[0].get("logprobs")
    if logprobs is None:
        raise ServerRefused("the server names no likelihoods of tokens: serve the guard where logprobs are allowed")
    if not isinstance(logprobs, dict):
        raise UselessError("the server's likelihoods are no object")
    return logprobs


def _at_first_token(logprobs: dict[str, Any]) -> list[tuple[str, float]]:
    """The likeliest first tokens in an answer of completions."""
    entries = logprobs.get("top_logprobs")
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], dict):
        raise UselessError("the server's answer names no likeliest tokens")
    return [_checked(token, value) for token, value in entries[0].items()]


def _at_verdict(logprobs: dict[str, Any], opening: str) -> list[tuple[str, float]] | None:
    """The likeliest tokens where the verdict stands in an answer of a chat; None where the answer opens otherwise."""
    entries = logprobs.get("content")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UselessError("the server's answer holds no tokens")
    opening_text = ""
    for entry in entries:
        token = str(entry.get("token", ""))
        if opening_text.strip() == opening.strip() and token.strip(SPACES):
            top = entry.get("top_logprobs")
            if not isinstance(top, list) or not top or not all(isinstance(one, dict) for one in top):
                raise UselessError("the server's answer names no likeliest tokens")
            return [_checked(one.get("token"), one.get("logprob")) for one in top]
        opening_text += token
    return None


def _checked(token: Any, value: Any) -> tuple[str, float]:
    if not isinstance(token, str) or isinstance(value, bool) or not isinstance(value, int | float) or not value <= 1e-3:
        raise UselessError("the server's answer holds a likelihood that is none")
    return token, min(0.0, float(value))
