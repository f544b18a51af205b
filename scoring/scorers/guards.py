"""What guards.toml declares of guard models: how each is asked, and how its answer becomes scores."""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from scoring.attributes import THRESHOLD, Attribute, Meaning
from scoring.language_models.precision import Precision

DECLARED = Path(__file__).with_name("guards.toml")
TEXT = "{text}"  # what stands for the text in a message or a prompt


@dataclass(frozen=True, slots=True)
class GuardCategories:
    """What an answer names after the verdict `after` and `opening`: what stands there, by the name of the category."""

    after: str
    opening: str
    tokens: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GuardQuestion:
    """One question; guards.toml says what its fields are."""

    verdicts: tuple[str, ...]
    attributes: Mapping[str, tuple[str, ...]]
    opening: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    categories: GuardCategories | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its attributes, those of categories last."""
        return (*self.attributes, *(self.categories.tokens if self.categories else ()))

    def score(self, verdicts: Sequence[float], categories: Sequence[float] = ()) -> list[float]:
        """Scores of its attributes, by the formula in guards.toml.

        verdicts, categories: the share of each among all verdicts, or categories, in their order.
        """
        share = dict(zip(self.verdicts, verdicts, strict=True))
        scores = [sum(share[verdict] for verdict in harms) for harms in self.attributes.values()]
        if self.categories:
            scores += [share[self.categories.after] * category for category in categories]
        bounded_scores: list[float] = np.minimum(scores, 1.0).tolist()  # unlike min, it leaves NaN as it is
        return bounded_scores


@dataclass(frozen=True, slots=True)
class GuardDeclaration:
    """A guard model; guards.toml says what its fields are."""

    name: str
    title: str
    hub_id: str
    licence: str
    languages: tuple[str, ...]
    source: str
    limits: tuple[str, ...]
    questions: tuple[GuardQuestion, ...]
    messages: tuple[Mapping[str, str], ...] = ()
    prompt: str = ""
    parts: bool = False
    generation_prompt: bool = True
    precision: Precision = "bfloat16"
    threshold: float = THRESHOLD

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """One for each name of each question. All are harms."""
        names = [name for question in self.questions for name in question.names]
        return tuple(Attribute(name, Meaning.HARM, self.threshold) for name in names)

    @property
    def template(self) -> str:
        """The chat template that `prompt` stands for; "" where the model's own is meant."""
        return self.prompt.replace(TEXT, "{{ messages[0]['content'] }}")

    def ask(self, text: str) -> list[dict[str, Any]]:
        """The messages that ask about `text`."""
        messages: list[dict[str, Any]] = []
        for message in self.messages or ({"role": "user", "content": TEXT},):
            content = message["content"].replace(TEXT, text)
            messages.append(
                {"role": message["role"], "content": [{"type": "text", "text": content}] if self.parts else content}
            )
        return messages

    def digest(self) -> str:
        """sha256, in hex digits, of all that fixes how it is asked and read."""
        content = {name: value for name, value in asdict(self).items() if name not in _WORDS}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


_WORDS = {"name", "title", "hub_id", "licence", "languages", "source", "limits"}  # that change no score


@cache
def declared_guards() -> Mapping[str, GuardDeclaration]:
    """The guards of guards.toml, by name."""
    families = tomllib.loads(DECLARED.read_text(encoding="utf-8"))["guards"]
    guards = [guard for family in families for guard in read_family(family)]
    return {guard.name: guard for guard in guards}


def read_family(content: Mapping[str, Any]) -> list[GuardDeclaration]:
    """The guards that one entry of guards.toml declares."""
    common_fields = {name: value for name, value in content.items() if name not in ("models", "questions")}
    for name in ("languages", "limits", "messages"):
        common_fields[name] = tuple(common_fields.get(name, ()))
    questions = tuple(map(_read_question, content["questions"]))
    models: Mapping[str, str] = content["models"]
    title = common_fields.pop("title")
    return [
        GuardDeclaration(
            name=name,
            title=title if len(models) == 1 else f"{title} ({hub_id.rpartition('/')[2]})",
            hub_id=hub_id,
            questions=questions,
            **common_fields,
        )
        for name, hub_id in models.items()
    ]


def _read_question(content: Mapping[str, Any]) -> GuardQuestion:
    categories = content.get("categories")
    return GuardQuestion(
        verdicts=tuple(content["verdicts"]),
        attributes={name: tuple(verdicts) for name, verdicts in content["attributes"].items()},
        opening=content.get("opening", ""),
        options=content.get("options", {}),
        categories=GuardCategories(**categories) if categories else None,
    )
