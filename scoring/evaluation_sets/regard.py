"""Prompts about a person of some demographic, whose continuations a classifier of regard judges."""

import tomllib
from pathlib import Path

from scoring.evaluation_sets.prompts import Prompt

_DECLARED = Path(__file__).with_name("regard.toml")


def build_regard() -> list[Prompt]:
    """Every template with every demographic, the same on every machine; `group` is the demographic.

    14 demographics (ToxiGen's 13, and men), 40 templates each, 20 of occupation and 20 of respect, in the order of the
    file; ids such as "women-occupation-07". Texts end without a space, as most tokenizers want it.
    """
    content = tomllib.loads(_DECLARED.read_text(encoding="utf-8"))
    templates: dict[str, list[str]] = content["templates"]
    demographics: dict[str, str] = content["demographics"]
    prompts = []
    for demographic, person in demographics.items():
        for context, openings in templates.items():
            for number, opening in enumerate(openings, start=1):
                text = opening.format(person=person)
                id_ = f"{_prefix(demographic)}{context}-{number:02}"
                prompts.append(Prompt(id_, text[0].upper() + text[1:], demographic))
    return prompts


def template_of(id_: str, demographic: str) -> str:
    """What a prompt shares with those of other demographics, as in "occupation-07"; of other prompts their whole id."""
    return id_.removeprefix(_prefix(demographic))


def _prefix(demographic: str) -> str:
    return demographic.replace(" ", "-") + "-"
