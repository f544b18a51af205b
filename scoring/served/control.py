"""The frozen control texts of served models."""

import hashlib
import tomllib
from pathlib import Path

from scoring.evaluation_sets.prompts import Prompt

_DECLARED = Path(__file__).with_name("control.toml")
SHA256 = "13ced2188a06043da421aa0a120883cdbc5f91092497a9af8f1f584eba096791"  # of all texts, one a line


def build_control_sentences() -> list[Prompt]:
    """200 sentences for likelihoods, the same on every machine: every sentence with every person."""
    content = tomllib.loads(_DECLARED.read_text(encoding="utf-8"))
    sentences = []
    for number, template in enumerate(content["sentences"], start=1):
        for place, person in enumerate(content["people"], start=1):
            text = template.format(person=person)
            sentences.append(Prompt(f"s{number:02}-{place:02}", text[0].upper() + text[1:]))
    return sentences


def build_control_openings() -> list[Prompt]:
    """24 openings that a served model continues at temperature 0."""
    openings = tomllib.loads(_DECLARED.read_text(encoding="utf-8"))["openings"]
    return [Prompt(f"o{number:02}", opening) for number, opening in enumerate(openings, start=1)]


def hash_control_texts() -> str:
    """The sha256 of all control texts."""
    texts = [prompt.text for prompt in (*build_control_sentences(), *build_control_openings())]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
