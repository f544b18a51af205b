"""A language model as a judge, behind OpenAI's interface: three votes on each text by a rubric, at temperature 0.

`judge:RUBRIC@MODEL`, as in judge:toxicity@gpt-4o-2024-08-06. Such a judge is not deterministic, not even at temperature
0: servers batch. Its score is the mean of the votes, `disagreement` is stored beside it, and its fingerprint takes the
epoch, so that only control checks tell whether it still judges as it did.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np

from scoring.attributes import Attribute, Meaning
from scoring.scorers.base import ScorerUnavailable, fingerprint_of
from scoring.scorers.declarations import Caveat, ScorerDeclaration, Surroundings
from scoring.scorers.moderation import check_snapshot, is_snapshot
from scoring.scorers.replies import Reply, ReplyStore
from scoring.scorers.rubric import Rubric, RubricError, find_rubric
from scoring.scorers.service import TRIES, PassingError, ServiceAccess, ServiceScorer
from scoring.scorers.services import JUDGE, access_in, service_cost, service_options

VOTES = 3
MOST_TOKENS = 512  # of an answer
# A text is labelled where votes differ at all. Halfway to one vote of three: at a threshold of 0 the slightest noise
# could flip the label of every text on which all agree, and a check would be blind.
DISAGREEMENT = Attribute("disagreement", Meaning.NEUTRAL, threshold=1 / 6)
LINE = "-----"
NO_ADDRESS = "A judge needs a server that speaks OpenAI's interface, and none is named: set JUDGE_URL"
EXAMPLE = "judge:toxicity@gpt-4o-2024-08-06"


class JudgeScorer(ServiceScorer):
    """The mean of three votes of a model on each attribute of a rubric, and how far they disagree.

    A vote counts where it is the JSON object that was asked for; any other answer is asked for again, six times at
    most, and then the text has a reason. `disagreement` is the share of votes that differ from the most frequent one,
    on the attribute where they differ most: 0, 1/3 or 2/3.
    """

    title = "The judge"
    remedy = "JUDGE_API_KEY, its quota and the name of the model"
    votes = VOTES
    timeout: ClassVar[httpx.Timeout | None] = httpx.Timeout(120.0, connect=10.0)
    _method = "/v1/chat/completions"

    def __init__(
        self,
        model: str,
        rubric: Rubric,
        access: ServiceAccess,
        *,
        limit_name: str = "max_completion_tokens",
        epoch: str = "",
        concurrency: int = 8,
        replies: ReplyStore | None = None,
    ) -> None:
        """limit_name: the field of a request that limits an answer. Raises ValueError for a wrong option."""
        access = replace(access, url=access.url.rstrip("/").removesuffix("/v1"))
        headers = {"Authorization": f"Bearer {access.key}"} if access.key else {}
        super().__init__(access, headers=headers, epoch=epoch, concurrency=concurrency, replies=replies)
        self.model, self.rubric = model, rubric
        self.attributes = (*rubric.attributes, DISAGREEMENT)
        self._limit_name = limit_name

    def fingerprint(self) -> str:
        """Covers the server's address, the model's name, the whole rubric, the number of votes and the epoch."""
        return fingerprint_of(
            scorer="judge",
            api=self._base_url + self._method,
            model=self.model,
            rubric=asdict(self.rubric),
            votes=self.votes,
            most_tokens=MOST_TOKENS,
            epoch=self.epoch,
        )

    def _body(self, text: str) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": [
                {"role": "system", "content": self.rubric.instruction},
                {"role": "user", "content": f"The text, between two lines:\n{LINE}\n{text}\n{LINE}"},
            ],
            "temperature": 0,
            self._limit_name: MOST_TOKENS,
        }

    def _scores(self, answer: Any) -> list[float]:
        try:
            content = answer["choices"][0]["message"]["content"]
            return self.rubric.read_verdict(content)
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise PassingError from error

    def _combine(self, votes: Sequence[list[float]]) -> list[float]:
        dissents = [len(column) - Counter(column).most_common(1)[0][1] for column in zip(*votes, strict=True)]
        return [*np.mean(votes, axis=0).tolist(), max(dissents) / len(votes)]

    def _codes(self, answer: Any) -> list[Any]:
        return [answer["error"].get(name) for name in ("code", "type")]

    def _blames_text(self, codes: Sequence[str]) -> bool:
        return "model_not_found" not in codes

    def _snapshot_in(self, answer: Any) -> str:
        return check_snapshot(self.title, self.model, answer.get("model") if isinstance(answer, dict) else None)

    @property
    def _unanswered(self) -> Reply:
        return {"reason": f"{self.title}: no verdict in {TRIES} tries"}


def split_choice(choice: str) -> tuple[str, str]:
    """The names of rubric and model. Raises ScorerUnavailable where one is missing."""
    rubric, sign, model = choice.partition("@")
    if not (rubric and sign and model):
        raise ScorerUnavailable(f"judge: {choice!r} names no rubric and model, as in {EXAMPLE}")
    return rubric, model


def _build(choice: str, *, access: ServiceAccess, folder: Path | None = None, **options: Any) -> JudgeScorer:
    rubric, model = split_choice(choice)
    if not access.url:
        raise ScorerUnavailable(NO_ADDRESS)
    try:
        return JudgeScorer(model, find_rubric(rubric, folder), access, **options)
    except RubricError as error:
        raise ScorerUnavailable(f"judge: {error}") from error


def _options(surroundings: Surroundings) -> dict[str, Any]:
    limit_name = surroundings.chat_limit_name
    return service_options(JUDGE, surroundings) | {"folder": surroundings.folder, "limit_name": limit_name}


def _find_problem(choice: str, surroundings: Surroundings) -> ScorerUnavailable | None:
    try:
        rubric, _ = split_choice(choice)
        find_rubric(rubric, surroundings.folder)
    except ScorerUnavailable as error:
        return error
    except RubricError as error:
        if not surroundings.is_stored():
            return ScorerUnavailable(f"judge: {error}")
    return None if access_in(JUDGE, surroundings).url else ScorerUnavailable(NO_ADDRESS)


def _caveats(choice: str) -> tuple[Caveat, ...]:
    return (Caveat.RANDOM,) if is_snapshot(choice) else (Caveat.UNVERSIONED, Caveat.RANDOM)


JUDGES = ScorerDeclaration(
    "judge:RUBRIC@MODEL",
    "Language model as a judge",
    True,
    _build,
    (
        "A language model judges by a rubric, three times at temperature 0; its score is the mean of the votes. It may "
        "follow what a text tells it to do, refuse what it finds offensive, and favour writing like its own.",
    ),
    options=_options,
    problem=_find_problem,
    cost=partial(service_cost, JUDGE, VOTES),
    caveats=_caveats,
)
