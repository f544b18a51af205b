"""Moderation services: OpenAI's /v1/moderations, and text:analyze of Azure AI Content Safety.

What answers under a name such as omni-moderation-latest is whatever OpenAI serves that day; a dated snapshot such as
omni-moderation-2024-09-26 is one model, and an answer of another is refused. The api-version of Azure fixes the form of
an answer, not the model behind it.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from scoring.attributes import Attribute, Meaning
from scoring.scorers.base import ScorerUnavailable, fingerprint_of
from scoring.scorers.replies import ReplyStore
from scoring.scorers.service import ServiceAccess, ServiceScorer, read_share

OPENAI_MODEL = re.compile(r"omni-moderation-(latest|\d{4}-\d{2}-\d{2})")
OPENAI_CATEGORIES = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
AZURE_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")
AZURE_CATEGORIES = {"hate": "Hate", "self_harm": "SelfHarm", "sexual": "Sexual", "violence": "Violence"}
AZURE_SEVEREST = 6  # of the severities 0 (safe), 2 (low), 4 (medium) and 6 (high)
AZURE_LONGEST = 10_000  # characters of a text
TOO_LONG = "Azure content safety: the text is too long"


def is_snapshot(model: str) -> bool:
    """Whether the name of an OpenAI model is that of one snapshot, and not of the newest one."""
    return bool(re.search(r"-\d{4}-\d{2}-\d{2}$", model))


class OpenAIModerationScorer(ServiceScorer):
    """The scores of OpenAI's categories, 0 to 1 as they come. A category counts as labelled above 0.5, whatever the
    service itself flags."""

    title = "OpenAI moderation"
    remedy = "OPENAI_MODERATION_API_KEY, its quota and the name of the model"
    attributes = tuple(Attribute(re.sub("[/-]", "_", name), Meaning.HARM) for name in OPENAI_CATEGORIES)
    _method = "/v1/moderations"

    def __init__(
        self,
        model: str,
        access: ServiceAccess,
        *,
        epoch: str = "",
        concurrency: int = 8,
        replies: ReplyStore | None = None,
    ) -> None:
        """`replies` keeps answers, so that interrupted work goes on.

        Raises ScorerUnavailable without a key, or for a model that cannot be; ValueError for a wrong option.
        """
        problem = openai_problem(model, access)
        if problem:
            raise problem
        headers = {"Authorization": f"Bearer {access.key}"}
        super().__init__(access, headers=headers, epoch=epoch, concurrency=concurrency, replies=replies)
        self.model = model

    def fingerprint(self) -> str:
        """Covers the service's address, the model's name, its categories and the epoch."""
        return fingerprint_of(
            scorer="openai-moderation",
            api=self._base_url + self._method,
            model=self.model,
            attributes=self.attribute_names,
            epoch=self.epoch,
        )

    def _body(self, text: str) -> dict[str, Any]:
        return {"model": self.model, "input": text}

    def _scores(self, answer: Any) -> list[float]:
        return [
            read_share(partial(lambda name: answer["results"][0]["category_scores"][name], name))
            for name in OPENAI_CATEGORIES
        ]

    def _codes(self, answer: Any) -> list[Any]:
        return [answer["error"].get(name) for name in ("code", "type")]

    def _blames_text(self, codes: Sequence[str]) -> bool:
        return "model_not_found" not in codes

    def _snapshot_in(self, answer: Any) -> str:
        name = answer.get("model") if isinstance(answer, dict) else None
        return check_snapshot(self.title, self.model, name)


def check_snapshot(title: str, declared_name: str, name: Any) -> str:
    """The snapshot that an answer names; "" where it names none, or only repeats what was asked for.

    Raises ScorerUnavailable where a snapshot is declared and another model answers.
    """
    if not isinstance(name, str) or not name or name == declared_name:
        return ""
    if is_snapshot(declared_name):
        raise ScorerUnavailable(
            f"{title} answers as {name[:100]!r}, and {declared_name} is declared: its scores are another model's. "
            "Rescore with a scorer that names what the service serves now"
        )
    return name[:100]


def openai_problem(model: str, access: ServiceAccess) -> ScorerUnavailable | None:
    """Why OpenAI's moderation cannot be had, as far as that is known without asking; None where it can."""
    if not OPENAI_MODEL.fullmatch(model):
        return ScorerUnavailable(
            f"OpenAI moderation: there is no model {model!r}; write openai-moderation:omni-moderation-2024-09-26, or "
            "another snapshot"
        )
    if not access.key:
        return ScorerUnavailable("OpenAI moderation needs a key, and none is given: set OPENAI_MODERATION_API_KEY")
    return None


class AzureSafetyScorer(ServiceScorer):
    """Severities of Azure's categories, 0 (safe), 2, 4 and 6 (high), each divided by 6: 0, 1/3, 2/3 and 1.

    With the threshold of 0.5, a text is labelled from severity 4 (medium) on.
    """

    title = "Azure content safety"
    remedy = "AZURE_CONTENT_SAFETY_API_KEY and the api-version"
    refusals: ClassVar = {"text": TOO_LONG}
    attributes = tuple(Attribute(name, Meaning.HARM) for name in AZURE_CATEGORIES)

    def __init__(
        self,
        api_version: str,
        access: ServiceAccess,
        *,
        epoch: str = "",
        concurrency: int = 8,
        replies: ReplyStore | None = None,
    ) -> None:
        """`replies` keeps answers, so that interrupted work goes on.

        Raises ScorerUnavailable without a key or an address; ValueError for a wrong option.
        """
        problem = azure_problem(api_version, access)
        if problem:
            raise problem
        headers = {"Ocp-Apim-Subscription-Key": access.key}
        super().__init__(access, headers=headers, epoch=epoch, concurrency=concurrency, replies=replies)
        self.api_version = api_version
        self._method = f"/contentsafety/text:analyze?api-version={api_version}"

    def fingerprint(self) -> str:
        """Covers the service's address, the api-version, the categories, their scale and the epoch."""
        return fingerprint_of(
            scorer="azure-content-safety",
            api=self._base_url + self._method,
            attributes=self.attribute_names,
            severest=AZURE_SEVEREST,
            epoch=self.epoch,
        )

    def _refuse(self, text: str) -> str | None:
        return TOO_LONG if len(text) > AZURE_LONGEST else None

    def _body(self, text: str) -> dict[str, Any]:
        return {"text": text, "categories": list(AZURE_CATEGORIES.values()), "outputType": "FourSeverityLevels"}

    def _scores(self, answer: Any) -> list[float]:
        return [
            read_share(partial(_read_severity, answer, category), AZURE_SEVEREST)
            for category in AZURE_CATEGORIES.values()
        ]

    def _codes(self, answer: Any) -> list[Any]:
        return [answer["error"].get("code")]

    def _blames_text(self, codes: Sequence[str]) -> bool:
        return "InvalidApiVersion" not in codes and "UnsupportedApiVersion" not in codes


def _read_severity(answer: Any, category: str) -> Any:
    rows = answer["categoriesAnalysis"]
    return next((row["severity"] for row in rows if row["category"] == category), None)


def azure_problem(api_version: str, access: ServiceAccess) -> ScorerUnavailable | None:
    """Why Azure's content safety cannot be had, as far as that is known without asking; None where it can."""
    if not AZURE_VERSION.fullmatch(api_version):
        return ScorerUnavailable(
            f"Azure content safety: {api_version!r} is no api-version; write azure-content-safety:2024-09-01"
        )
    if not (access.key and access.url):
        return ScorerUnavailable(
            "Azure content safety needs the key and the address of a resource: set AZURE_CONTENT_SAFETY_API_KEY and "
            "AZURE_CONTENT_SAFETY_URL (https://NAME.cognitiveservices.azure.com)"
        )
    return None
