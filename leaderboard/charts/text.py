"""How wide words are: browsers have different fonts, so this is an estimate that is rarely exceeded."""

from functools import lru_cache

SIZE, LINE = 12, 16  # pixels: of the letters of all charts, and of a line of them
SHORTEST = 6  # characters that a shortened name keeps
_NARROW, _WIDE, _CAPITAL = frozenset("ijlftrI.,:;'|!()[]-· /"), frozenset("mwMW@%—…"), frozenset("ABCDEFGHKNOPQRUVXYZ&")
_BOLD = 1.1
SPACE = "\u00a0\u00a0"  # between a name and its number: plain spaces run together in SVG


@lru_cache(maxsize=8192)
def measure_text(text: str, strong: bool = False) -> float:
    """The width of `text` in pixels."""
    narrow = sum(character in _NARROW for character in text)
    wide = sum(character in _WIDE for character in text)
    capital = sum(character in _CAPITAL for character in text)
    ems = 0.37 * narrow + 0.93 * wide + 0.72 * capital + 0.62 * (len(text) - narrow - wide - capital)
    return SIZE * ems * (_BOLD if strong else 1)


def shorten(text: str, room: float, strong: bool = False) -> str:
    """`text` within `room` pixels: without its middle if need be, as models of a family differ at the end."""
    if measure_text(text, strong) <= room:
        return text
    characters = len(text) - 1
    while characters > SHORTEST:
        tail = characters * 2 // 5
        shorter = f"{text[: characters - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"
        if measure_text(shorter, strong) <= room:
            return shorter
        characters -= 1
    return shorter if len(text) > SHORTEST + 1 else text
