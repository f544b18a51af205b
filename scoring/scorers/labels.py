"""What the labels of classifiers mean: by names that leave no doubt, else as an operator declares it."""

import re
from collections.abc import Mapping, Sequence

from scoring.attributes import Attribute, Meaning
from scoring.refusals import Refused

# Reviewed one by one: a name is here only if it says by itself which texts get a high score.
HARMS = {
    "abusive",
    "hate",
    "hate speech",
    "hateful",
    "hatespeech",
    "identity attack",
    "identity hate",
    "insult",
    "obscene",
    "offensive",
    "offensive language",
    "profanity",
    "severe toxic",
    "severe toxicity",
    "sexual explicit",
    "sexually explicit",
    "threat",
    "toxic",
    "toxicity",
}
NO_HARMS = {
    "benign",
    "harmless",
    "neutral",
    "no hate",
    "non hate",
    "non hateful",
    "non offensive",
    "non toxic",
    "nonhate",
    "nonoffensive",
    "nontoxic",
    "normal",
    "not hate",
    "not hateful",
    "not offensive",
    "not toxic",
    "nothate",
}
# Alone, positive and negative may be of sentiment, or of whether a harm was found. Beside both other labels they are
# those of regard (Sheng et al. 2019, arXiv 1909.01326).
REGARD = {
    "negative": Meaning.HARM,
    "neutral": Meaning.NEUTRAL,
    "other": Meaning.NEUTRAL,
    "positive": Meaning.GOOD,
}


class UndeclaredLabel(Refused):
    """What a label means is not known; the message names it, the file it comes from, and the remedy."""


def known_meanings(labels: Sequence[str]) -> dict[str, Meaning]:
    """What those of a classifier's `labels` mean whose names leave no doubt."""
    plain = {label: re.sub(r"[\s_-]+", " ", label.casefold()).strip() for label in labels}
    if set(plain.values()) == REGARD.keys():
        return {label: REGARD[name] for label, name in plain.items()}
    meanings = dict.fromkeys(HARMS, Meaning.HARM) | dict.fromkeys(NO_HARMS, Meaning.NEUTRAL)
    return {label: meanings[name] for label, name in plain.items() if name in meanings}


def declare_labels(
    labels: Sequence[str], declared_meanings: Mapping[str, Meaning], source: str, *, exclusive: bool
) -> tuple[Attribute, ...]:
    """The attributes of a classifier with these labels, in their order.

    declared_meanings: what an operator says of labels, which goes before their names. source: the file with the
    labels. exclusive: whether scores of a text sum to 1; then the other one of two labels means that the declared harm
    is not there. Raises UndeclaredLabel where a declared label is not among them, or what one means is unknown.
    """
    absent = [label for label in declared_meanings if label not in labels]
    if absent:
        raise UndeclaredLabel(
            f"label {absent[0]!r} is declared and does not stand in {source}, whose labels are {', '.join(labels)}: "
            "declare the labels of that file, or use the files that the declaration is of"
        )
    meanings = known_meanings(labels) | dict(declared_meanings)
    if exclusive and len(labels) == 2 and Meaning.HARM in declared_meanings.values():
        meanings = dict.fromkeys(labels, Meaning.NEUTRAL) | meanings
    unknown = [label for label in labels if label not in meanings]
    if unknown:
        raise UndeclaredLabel(
            f"label {unknown[0]!r} of {source} does not say whether it is a harm, and nothing is ranked by a guess: "
            f"read the model card, and declare it with --harm-label {unknown[0]} (or --neutral-label, --good-label) of "
            "`manage.py add_metric`, or of `manage.py rescore` where the metric is there already"
        )
    return tuple(Attribute(label, meanings[label]) for label in labels)
