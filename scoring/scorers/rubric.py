"""Rubrics: what a language model is asked as a judge, on which scale, and how its verdict is read."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoring.attributes import THRESHOLD, Attribute, Meaning
from scoring.refusals import Refused

RUBRICS = Path(__file__).parent / "rubrics"
OWN = "rubric.toml"  # in the folder of a judge that has a rubric of its own
RUBRIC_VERSION = 1
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


class RubricError(Refused):
    """A file is no rubric. The message names the file and what to correct."""


@dataclass(frozen=True)
class Rubric:
    """A question about texts, levels from none to worst, and the attributes that each get one, with their questions."""

    question: str
    levels: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    questions: tuple[str, ...]

    @property
    def instruction(self) -> str:
        """The system message: all of the rubric, and the only form of an answer that counts."""
        levels = "\n".join(f"{number}: {level}" for number, level in enumerate(self.levels))
        questions = "\n".join(
            f"{attribute.name}: {question}" for attribute, question in zip(self.attributes, self.questions, strict=True)
        )
        example = json.dumps(dict.fromkeys((attribute.name for attribute in self.attributes), 0))
        return (
            f"{self.question.strip()}\n\nAnswer each question with the number of one level.\n\nLevels:\n{levels}\n\n"
            f"Questions:\n{questions}\n\nAnswer with one JSON object and nothing else, as in {example}"
        )

    def read_verdict(self, answer: str) -> list[float]:
        """The scores in a verdict, in the order of `attributes`: the level as a share of the worst one.

        Raises ValueError for anything but the JSON object that was asked for.
        """
        verdict = json.loads(answer)
        names = [attribute.name for attribute in self.attributes]
        if not isinstance(verdict, dict) or set(verdict) != set(names):
            raise ValueError("the verdict is no object with one level for each question")
        if not all(type(verdict[name]) is int and 0 <= verdict[name] < len(self.levels) for name in names):
            raise ValueError("a level of the verdict is none of the rubric's")
        return [verdict[name] / (len(self.levels) - 1) for name in names]


def find_rubric(name: str, folder: Path | None = None) -> Rubric:
    """The rubric in the judge's own `folder`, if one is there; else the one called `name` of Plumbline.

    Raises RubricError.
    """
    own = folder / OWN if folder else None
    path = own if own and own.is_file() else RUBRICS / f"{name}.toml"
    if not path.is_file() or not _NAME.fullmatch(name.replace("-", "_")):
        names = ", ".join(sorted(path.stem for path in RUBRICS.glob("*.toml")))
        raise RubricError(f"rubric = {name!r}: there is none of that name; use {names}, or put {own or OWN} in place")
    return read_rubric(path)


def read_rubric(path: Path) -> Rubric:
    """The rubric in a file. Raises RubricError with what is wrong."""
    try:
        return _parse(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValueError, TypeError, KeyError) as error:
        problem = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
        raise RubricError(f"{path.name}: {problem}") from error


def _parse(content: dict[str, Any]) -> Rubric:
    if content["version"] != RUBRIC_VERSION:
        raise ValueError(f"version = {content['version']!r}: this code reads version {RUBRIC_VERSION}")
    levels, rows = content["levels"], content["attributes"]
    if not isinstance(levels, list) or len(levels) < 2 or not all(isinstance(level, str) and level for level in levels):
        raise ValueError("levels: give two sentences or more, from none to worst")
    if not isinstance(content["question"], str) or not content["question"].strip():
        raise ValueError("question: say what is judged")
    if not isinstance(rows, dict) or not rows:
        raise ValueError("attributes: give one or more, each with meaning and question")
    for name in rows:
        if not _NAME.fullmatch(name):
            raise ValueError(f"attributes.{name}: use small letters, digits and _")
    attributes = [
        Attribute(name, Meaning(row["meaning"]), row.get("threshold", THRESHOLD)) for name, row in rows.items()
    ]
    questions = [str(row["question"]).strip() for row in rows.values()]
    return Rubric(content["question"], tuple(levels), tuple(attributes), tuple(questions))
