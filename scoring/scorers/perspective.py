"""Perspective, Google's comment analyser, over HTTPS.

The service has announced its end: after 2026 no score can be had from it any more. From then on the scorer's state is
`retired`; what was scored before stays, and cannot be repeated.

The API changes without notice, so a fingerprint takes the `epoch` that the caller gives: a string that changes when
the scores of a control set do.
"""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar

from scoring.attributes import Attribute, Meaning
from scoring.scorers import service
from scoring.scorers.base import ScorerState, ScorerUnavailable, fingerprint_of
from scoring.scorers.replies import ReplyStore
from scoring.scorers.service import ServiceAccess, ServiceScorer, read_share

PUBLIC_API = "https://commentanalyzer.googleapis.com"
METHOD = "/v1alpha1/comments:analyze"
END_OF_SERVICE = date(2026, 12, 31)  # the last day

ATTRIBUTES = ("TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT")
MEANINGS = {
    **dict.fromkeys(ATTRIBUTES, Meaning.HARM),
    "SEXUALLY_EXPLICIT": Meaning.HARM,
    "FLIRTATION": Meaning.NEUTRAL,
    "TOXICITY_EXPERIMENTAL": Meaning.HARM,
    "SEVERE_TOXICITY_EXPERIMENTAL": Meaning.HARM,
    "IDENTITY_ATTACK_EXPERIMENTAL": Meaning.HARM,
    "INSULT_EXPERIMENTAL": Meaning.HARM,
    "PROFANITY_EXPERIMENTAL": Meaning.HARM,
    "THREAT_EXPERIMENTAL": Meaning.HARM,
    "AFFINITY_EXPERIMENTAL": Meaning.GOOD,
    "COMPASSION_EXPERIMENTAL": Meaning.GOOD,
    "CURIOSITY_EXPERIMENTAL": Meaning.GOOD,
    "NUANCE_EXPERIMENTAL": Meaning.GOOD,
    "PERSONAL_STORY_EXPERIMENTAL": Meaning.GOOD,
    "REASONING_EXPERIMENTAL": Meaning.GOOD,
    "RESPECT_EXPERIMENTAL": Meaning.GOOD,
    "ATTACK_ON_AUTHOR": Meaning.HARM,
    "ATTACK_ON_COMMENTER": Meaning.HARM,
    "INCOHERENT": Meaning.NEUTRAL,
    "INFLAMMATORY": Meaning.HARM,
    "LIKELY_TO_REJECT": Meaning.NEUTRAL,
    "OBSCENE": Meaning.HARM,
    "SPAM": Meaning.NEUTRAL,
    "UNSUBSTANTIAL": Meaning.NEUTRAL,
}


class ScoreKind(StrEnum):
    """Which score of an attribute: that of the whole text, or that of its first span (the first sentence, mostly)."""

    SUMMARY = "summary"
    FIRST_SPAN = "first_span"


class PerspectiveScorer(ServiceScorer):
    """Perspective's scores of texts.

    A text that is refused for what it is (empty, too long, in a language that is not supported) has no scores but a
    reason; so has one that got no usable answer, which is asked about anew the next time.
    """

    title = "Perspective"
    remedy = "that the key is right, that its project has the Perspective Comment Analyzer API enabled"
    refusals: ClassVar = {
        "COMMENT_EMPTY": "Perspective: the text is empty",
        "COMMENT_TOO_LONG": "Perspective: the text is too long",
        "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE": "Perspective: the language is not supported",
    }
    _method = METHOD

    def __init__(
        self,
        access: ServiceAccess,
        *,
        attributes: tuple[str, ...] = ATTRIBUTES,
        kind: str = ScoreKind.SUMMARY,
        languages: tuple[str, ...] = ("en",),
        epoch: str = "",
        concurrency: int = 8,
        replies: ReplyStore | None = None,
    ) -> None:
        """`languages` () lets the service guess. `replies` keeps answers, so that interrupted work goes on.

        Raises ScorerUnavailable without a key, and after the end of the service; ValueError for a wrong option.
        """
        problem = unavailable(access)
        if problem:
            raise problem
        _check_attributes(attributes)
        if kind not in list(ScoreKind):
            raise ValueError(f"kind = {kind!r}: use one of {', '.join(ScoreKind)}")
        headers = {"X-Goog-Api-Key": access.key}
        super().__init__(access, headers=headers, epoch=epoch, concurrency=concurrency, replies=replies)
        self.attributes = tuple(Attribute(name, MEANINGS[name]) for name in attributes)
        self.kind = ScoreKind(kind)
        self.languages = tuple(languages)

    def fingerprint(self) -> str:
        """Covers the service's address, attributes, kind of score, languages and epoch."""
        return fingerprint_of(
            scorer="perspective",
            api=self._base_url + METHOD,
            attributes=self.attribute_names,
            kind=self.kind,
            languages=self.languages,
            epoch=self.epoch,
        )

    def _body(self, text: str) -> dict[str, Any]:
        return {
            "comment": {"text": text, "type": "PLAIN_TEXT"},
            "requestedAttributes": {name: {} for name in self.attribute_names},
            "spanAnnotations": self.kind is ScoreKind.FIRST_SPAN,
            "doNotStore": True,
            **({"languages": self.languages} if self.languages else {}),
        }

    def _scores(self, answer: Any) -> list[float]:
        return [read_share(partial(self._score, answer, name)) for name in self.attribute_names]

    def _score(self, answer: Any, name: str) -> Any:
        score = answer["attributeScores"][name]
        return (score["summaryScore"] if self.kind is ScoreKind.SUMMARY else score["spanScores"][0]["score"])["value"]

    def _codes(self, answer: Any) -> list[Any]:
        error = answer["error"]
        details = [detail for detail in error.get("details", []) if isinstance(detail, dict)]
        return [detail.get(name) for detail in details for name in ("errorType", "reason")] + [error.get("status")]

    def _blames_text(self, codes: Sequence[str]) -> bool:
        return not any(code.startswith("API_KEY") for code in codes)


def end_of(access: ServiceAccess) -> date | None:
    """The last day of the service; None of another one that speaks its protocol."""
    return END_OF_SERVICE if access.url.rstrip("/") == PUBLIC_API else None


def unavailable(access: ServiceAccess) -> ScorerUnavailable | None:
    """Why Perspective cannot be had, as far as that is known without asking; None where it can."""
    end = end_of(access)
    if end and service.today() > end:
        return ScorerUnavailable(
            f"Perspective ended on {end:%-d %B %Y}, so nothing can be scored with it any more: use another scorer",
            ScorerState.RETIRED,
        )
    if not access.key:
        return ScorerUnavailable(
            "Perspective needs a key, and none is given: get one of a Google Cloud project with the Perspective "
            "Comment Analyzer API enabled, and set PERSPECTIVE_API_KEY"
        )
    return None


def _check_attributes(attributes: tuple[str, ...]) -> None:
    unknown = [name for name in attributes if name not in MEANINGS]
    if unknown or not attributes or len(set(attributes)) < len(attributes):
        raise ValueError(
            f"attributes = {', '.join(map(str, attributes))}: name some, each once, of {', '.join(MEANINGS)}"
        )
