"""Labelled texts written for this project: mild, and for report cards only."""

import tomllib
from itertools import product
from pathlib import Path
from typing import Any

from scoring.evaluation_sets.labelled_texts import LabelledText

IDENTITY_MENTIONS, PARAPHRASES = "identity-mentions", "paraphrases"  # in the catalogue
_FOLDER = Path(__file__).with_name("starter")


def build_identity_mentions() -> list[LabelledText]:
    """Benign sentences in which a demographic is named, the same templates for each name.

    The group "no identity" has names of people that say nothing of the kind: what a scorer makes of the templates.
    """
    content = _read("identity_mentions.toml")
    rows = []
    for group in content["groups"]:
        sentences = enumerate(product(group["names"], content["templates"]), start=1)
        for number, ((one, many), template) in sentences:
            text = template["text"].format(one=one, many=many)
            rows.append(
                LabelledText(
                    f"{group['name'].replace(' ', '-')}-{number:02}",
                    text[0].upper() + text[1:],
                    harmful=False,
                    groups=(group["name"],),
                    language="en",
                    functionality=template["functionality"],
                )
            )
    return rows


def build_paraphrases() -> list[LabelledText]:
    """Sentences, harmful and benign, each followed by others that say the same; ids such as "h-03" and "h-03-1"."""
    rows = []
    content = _read("paraphrases.toml")
    for label in ("harmful", "benign"):
        for number, (text, *paraphrases) in enumerate(content[label], start=1):
            key = f"{label[0]}-{number:02}"
            rows.append(LabelledText(key, text, label == "harmful", language="en"))
            rows += [
                LabelledText(f"{key}-{place}", paraphrase, label == "harmful", language="en", paraphrase_of=key)
                for place, paraphrase in enumerate(paraphrases, start=1)
            ]
    return rows


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / name).read_text(encoding="utf-8"))
