"""Token log-likelihoods from a server that speaks OpenAI's /v1/completions, held to the board's own definition.

Two ways to ask are known. `prompt_logprobs` (vLLM) reports every token of the prompt with its id. `echo` with
`logprobs` (SGLang, llama-cpp-python) returns the prompt's tokens before one generated token, which is dropped.

Which tokens count is the definition of `LikelihoodSettings.bos`, as in process. Under "none" nothing may stand before
the text, and its first token is not scored. Under "prepend" the server has to put its token for the beginning before
the text, and every token of the text is scored. A server that does otherwise is refused, and so is an answer whose
tokens do not join to the text: it was cut, or is of another text.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from scoring.likelihood.passages import Passage, is_unicode
from scoring.likelihood.reasons import NotApplicable, Unscorable
from scoring.likelihood.served_tokens import (
    PromptTokens,
    names_special_token,
    read_echo,
    read_prompt_logprobs,
    trimmed_offsets,
)
from scoring.likelihood.settings import LikelihoodSettings
from scoring.likelihood.text_likelihood import TextLikelihood
from scoring.served import (
    CompletionsServer,
    PromptRefusedError,
    ServerSession,
    ServerUnavailable,
    UselessError,
    describe_identity,
    identity_of_answer,
    open_session,
)

COMPLETIONS = "completions"
PROBE = "The river runs past the old mill and under the bridge."
PROBE_TRIES = 2  # of each way: a server may answer one that it does not know by an error of its own
NO_TOKENS = np.empty(0, dtype=np.float32)


class Way(StrEnum):
    """How a server is asked for the likelihoods of a prompt."""

    PROMPT_LOGPROBS = "prompt_logprobs"
    ECHO = "echo"


@dataclass(frozen=True, slots=True)
class LikelihoodWay:
    """How a server gives likelihoods.

    leads: it puts a token of its own before every text. can_lead: it does so where it is told to add special tokens.
    """

    way: Way
    leads: bool
    can_lead: bool = False

    def as_json(self) -> dict[str, Any]:
        """Values that `from_json` reads."""
        return {"way": self.way.value, "leads": self.leads, "can_lead": self.can_lead}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "LikelihoodWay":
        """The way that `as_json` wrote."""
        return cls(Way(values["way"]), bool(values["leads"]), bool(values.get("can_lead")))

    def fits(self, bos: str) -> bool:
        """Whether its likelihoods are those of `LikelihoodSettings.bos`."""
        return self.leads or self.can_lead if bos == "prepend" else not self.leads


@dataclass(frozen=True, slots=True)
class ServedLikelihood:
    """A text's likelihood, the ids of its tokens where the server says them, and who answered."""

    likelihood: TextLikelihood
    ids: list[int] | None
    answered_by: str | None


def find_way(server: CompletionsServer) -> LikelihoodWay:
    """The first way by which the server gives the likelihoods of a sentence.

    Raises NotApplicable where it gives them in none, with its answer to each; ServerRefused, ServiceChanged.
    """
    problems = []
    with open_session(replace(server, tries=PROBE_TRIES)) as session:
        for way in Way:
            try:
                return _probe(session, way)
            except (PromptRefusedError, ServerUnavailable, UselessError) as error:
                problems.append(f"{way.value}: {error}")
    raise NotApplicable(f"the server gives no likelihoods of prompts ({'; '.join(problems)})")


def _probe(session: ServerSession, way: Way) -> LikelihoodWay:
    """What a way gives for PROBE, without special tokens and with them. Raises what `ask` does for the first."""
    recognise = partial(_recognise, way)
    plain_way = session.ask(COMPLETIONS, _request(session.server, PROBE, LikelihoodWay(way, leads=False)), recognise)
    with suppress(PromptRefusedError, ServerUnavailable, UselessError):
        leads_way = LikelihoodWay(way, leads=True)
        other_way = session.ask(COMPLETIONS, _request(session.server, PROBE, leads_way), recognise)
        return replace(plain_way, can_lead=other_way.leads)
    return plain_way


def _recognise(way: Way, answer: Any) -> LikelihoodWay:
    """Whether the answer to PROBE, which is plain ASCII, begins with a token of the server's own."""
    with suppress(UselessError):
        _reader(PROBE, LikelihoodWay(way, leads=True))(answer)
        return LikelihoodWay(way, leads=True)
    _reader(PROBE, LikelihoodWay(way, leads=False))(answer)
    return LikelihoodWay(way, leads=False)


def server_likelihoods(
    server: CompletionsServer,
    way: LikelihoodWay,
    texts: Sequence[str | Passage],
    settings: LikelihoodSettings,
    progress: Callable[[int], None] = lambda _count: None,
) -> list[ServedLikelihood]:
    """The likelihoods of `texts`, in their order; of a passage those of its own tokens, given the rest of its text.

    A text that the server refuses, as one too long for its context, or whose tokens it keeps reporting wrongly, has the
    reason instead. Raises NotApplicable where its way does not fit the settings, ServerRefused, ServerUnavailable,
    ServiceChanged.
    """
    if not way.fits(settings.bos):
        habit = "puts a token of its own before every text" if way.leads else "puts no token before a text"
        raise NotApplicable(f"bos = {settings.bos!r}: the server {habit}, so its likelihoods are of another definition")
    way = replace(way, leads=settings.bos == "prepend")
    passages = [text if isinstance(text, Passage) else Passage(text) for text in texts]
    with open_session(server) as session:
        return session.map(lambda passage: _ask(session, way, passage), passages, progress)


def _ask(session: ServerSession, way: LikelihoodWay, passage: Passage) -> ServedLikelihood:
    """The likelihood of one passage."""
    if reason := _refuse_unasked(passage.text):
        return ServedLikelihood(TextLikelihood(NO_TOKENS, reason, 0), None, None)
    read = _reader(passage.text, way)
    answers: list[str | None] = []

    def read_and_note(answer: Any) -> PromptTokens:
        answers.append(describe_identity(identity_of_answer(answer)))
        return read(answer)

    try:
        tokens = session.ask(COMPLETIONS, _request(session.server, passage.text, way), read_and_note)
    except PromptRefusedError:
        return ServedLikelihood(TextLikelihood(NO_TOKENS, Unscorable.REFUSED, 0), None, None)
    except UselessError:
        return ServedLikelihood(TextLikelihood(NO_TOKENS, Unscorable.MISREAD, 0), None, None)
    return ServedLikelihood(_likelihood(tokens, passage, way.leads), tokens.ids, answers[-1])


def _refuse_unasked(text: str) -> Unscorable | None:
    """Why a text cannot be scored, whatever a server says."""
    if not is_unicode(text):
        return Unscorable.NOT_UNICODE
    if not text:
        return Unscorable.EMPTY
    return Unscorable.SPECIAL if names_special_token(text) else None


def _likelihood(tokens: PromptTokens, passage: Passage, leads: bool) -> TextLikelihood:
    """The likelihood of the tokens that count, by the rule of the engine in process."""
    lone_count = 0 if leads else 1  # nothing precedes the first token
    first, last = 0, len(tokens.values)
    if last <= lone_count:
        return TextLikelihood(NO_TOKENS, Unscorable.LONE if last else Unscorable.EMPTY, 0)
    if not passage.is_whole:
        offsets = trimmed_offsets(tokens.pieces, passage.text)
        if offsets is None:
            return TextLikelihood(NO_TOKENS, Unscorable.MISREAD, 0)
        first, last = passage.token_range(offsets)
        if last <= max(first, lone_count):
            return TextLikelihood(NO_TOKENS, Unscorable.EMPTY if first == last else Unscorable.LONE, 0)
    values = np.array(tokens.values[max(first, lone_count) : last], dtype=np.float32)
    if not np.isfinite(values).all():
        return TextLikelihood(NO_TOKENS, Unscorable.NOT_FINITE, 1)
    return TextLikelihood(values, None, 1)


def _request(server: CompletionsServer, text: str, way: LikelihoodWay) -> dict[str, Any]:
    """One token is generated and dropped: 0 means no limit to some servers, and an error to others."""
    options = {"prompt_logprobs": 0} if way.way is Way.PROMPT_LOGPROBS else {"echo": True, "logprobs": 1}
    return {
        "model": server.model,
        "prompt": text,
        "max_tokens": 1,
        "temperature": 0.0,
        "add_special_tokens": way.leads,  # known to vLLM; others ignore it
        **options,
    }


def _reader(text: str, way: LikelihoodWay) -> Callable[[Any], PromptTokens]:
    read = read_prompt_logprobs if way.way is Way.PROMPT_LOGPROBS else read_echo
    return lambda answer: read(answer, text, way.leads)
