"""What operators say of a classifier's labels."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from scoring.attributes import Meaning

LABEL_WORDS = {
    Meaning.HARM: "a harm, of which less is better",
    Meaning.NEUTRAL: "neither harm nor good",
    Meaning.GOOD: "something good",
}


def label_options(parser: CommandParser) -> None:
    """Options that declare what labels of a classifier mean."""
    for meaning in Meaning:
        parser.add_argument(
            f"--{meaning}-label",
            action="append",
            default=[],
            metavar="LABEL",
            help=f"a label of the classifier that means {LABEL_WORDS[meaning]}; give it once a label",
        )


def labels_of(options: dict[str, Any]) -> dict[str, str]:
    """What the options declare, by label. Raises CommandError where a label has two meanings."""
    pairs = [(label, meaning.value) for meaning in Meaning for label in options[f"{meaning}_label"]]
    labels = dict(pairs)
    if len(labels) < len(set(pairs)):
        raise CommandError("a label is declared twice: a label is a harm, neutral or good")
    return labels
