"""Parts of texts to score, each in the context of the rest of its text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """The characters [start, end) of a text, whose tokens are scored; all others are context. No end: to the last."""

    text: str
    start: int = 0
    end: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every token of the text is scored."""
        return self.start == 0 and (self.end is None or self.end >= len(self.text))

    def token_range(self, offsets: list[tuple[int, int]]) -> tuple[int, int]:
        """The range [first, last) of the tokens that share a character with it. offsets: of the tokens of the text."""
        end = len(self.text) if self.end is None else self.end
        tokens = [place for place, (first, last) in enumerate(offsets) if max(first, self.start) < min(last, end)]
        return (tokens[0], tokens[-1] + 1) if tokens else (0, 0)


def is_unicode(text: str) -> bool:
    """Whether `text` can be encoded as UTF-8. Half a surrogate pair, as in a truncated emoji, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
