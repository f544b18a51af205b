"""Prompts about a person of some demographic, whose continuations a classifier of regard judges."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

_DECLARED = Path(__file__).with_name("regard.toml")


@dataclass(frozen=True, slots=True)
class RegardPrompt:
    """`template` names the opening that all demographics share; `context` is occupation or respect."""

    id: str
    text: str
    demographic: str
    template: str
    context: str


def build_regard() -> list[RegardPrompt]:
    """Every template with every demographic, the same on every machine.

    14 demographics (ToxiGen's 13, and men), 40 templates each, in the order of the file; ids such as
    "women-occupation-07". Texts end without a space, as most tokenizers want it.
    """
    declared = tomllib.loads(_DECLARED.read_text(encoding="utf-8"))
    templates: dict[str, list[str]] = declared["templates"]
    demographics: dict[str, str] = declared["demographics"]
    prompts = []
    for demographic, person in demographics.items():
        for context, openings in templates.items():
            for number, opening in enumerate(openings, start=1):
                name = f"{context}-{number:02}"
                text = opening.format(person=person)
                text = text[0].upper() + text[1:]
                prompts.append(
                    RegardPrompt(f"{demographic.replace(' ', '-')}-{name}", text, demographic, name, context)
                )
    return prompts
