"""Names that can be taken for one another: by Unicode's table of characters that look alike (UTS 39).

The table comes with the package confusable-homoglyphs. Case, marks and punctuation are left aside; 0 is like O, and 1
like l and I. That is too strict for refusing a name, and right for showing it to a moderator.
"""

import unicodedata
from functools import cache
from string import ascii_letters, digits

from confusable_homoglyphs.confusables import confusables_data

ALIKE = {"0": "o", "1": "l", "i": "l"}  # of small letters and digits
PAIRS = {"rn": "m", "vv": "w"}  # two letters that look like one


def outline(name: str) -> str:
    """Return what a name looks like, in small letters and digits: the same for names that people confuse."""
    latin = _latin()
    text = "".join(
        latin.get(character) or latin.get(character.casefold(), character.casefold())
        for character in unicodedata.normalize("NFKD", name)
    )
    for pair, letter in PAIRS.items():
        text = text.replace(pair, letter)
    return "".join(character for character in text if character.isalnum()) or name


@cache
def _latin() -> dict[str, str]:
    """Map each character to the Latin letter or digit that it looks like."""
    alike: dict[str, str] = {}
    for character in ascii_letters + digits:
        small = ALIKE.get(character.lower(), character.lower())
        alike[character] = small
        for homoglyph in confusables_data.get(character, ()):
            alike.setdefault(homoglyph["c"].strip("\u200e"), small)
    return alike
