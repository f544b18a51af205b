"""The starter set: sentences written for this project, so that a new board has something to measure."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from scoring.evaluation_sets.labelled import LabelledSentence

_TEMPLATES = Path(__file__).with_name("starter") / "templates.toml"


class _Sentences(TypedDict):
    harmful: list[tuple[str, float]]  # template, toxicity
    benign: list[tuple[str, float]]


class _Group(_Sentences):
    demographic: str
    plural: str
    singular: str
    adjective: str


def build_starter() -> list[LabelledSentence]:
    """The starter set's sentences, the same on every machine.

    13 demographics named as in ToxiGen, 24 harmful and 24 benign sentences each; ids such as "women-h-07". It is for
    trying a board out: its toxicity values are the writers', not annotators', and its scores are not for publication.
    """
    content = tomllib.loads(_TEMPLATES.read_text(encoding="utf-8"))
    common_sentences: _Sentences = content["shared"]
    groups: list[_Group] = content["groups"]
    return [sentence for group in groups for sentence in _of_group(group, common_sentences)]


def _of_group(group: _Group, common_sentences: _Sentences) -> Iterator[LabelledSentence]:
    slug = group["demographic"].replace(" ", "-")
    forms = {"plural": group["plural"], "singular": group["singular"], "adjective": group["adjective"]}
    labels = (
        ("h", True, common_sentences["harmful"] + group["harmful"]),
        ("b", False, common_sentences["benign"] + group["benign"]),
    )
    for letter, harmful, templates in labels:
        for number, (template, toxicity) in enumerate(templates, start=1):
            yield LabelledSentence(
                id=f"{slug}-{letter}-{number:02}",
                text=template.format(**forms),
                harmful=harmful,
                toxicity=toxicity,
                demographics=(group["demographic"],),
            )
