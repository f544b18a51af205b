"""Attributes as scorers declare them."""

from collections.abc import Iterable

from scoring.attributes import Attribute, Meaning


def harms(names: Iterable[str]) -> list[Attribute]:
    """Harms of these names, with the usual threshold."""
    return [Attribute(name, Meaning.HARM) for name in names]


def regard_labels(names: Iterable[str]) -> list[Attribute]:
    """Labels of regard, in any case."""
    meanings = {"positive": Meaning.GOOD, "negative": Meaning.HARM}
    return [Attribute(name, meanings.get(name.casefold(), Meaning.NEUTRAL)) for name in names]
