"""How much of a contributed file is read before it is refused."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a contributed file may have at most. Memory is bounded by these, whatever the file claims of itself.

    sent_bytes: of the file as it was sent. uncompressed_bytes: of what is in it; a table of so much text must fit in
    memory twice. compression_ratio: of the two, beyond the first 16 MiB. line_bytes: of one line, row of CSV or JSON
    record. text_characters: of one text. reason_characters: of one reason. tokens: log-likelihoods of one text. rows:
    of the file. problems: how many are counted before the rest is not read. described: how many a report describes.
    """

    sent_bytes: int = 2**29
    uncompressed_bytes: int = 2**31
    compression_ratio: int = 100
    line_bytes: int = 2**22
    text_characters: int = 2**16
    reason_characters: int = 300
    tokens: int = 2**16
    rows: int = 5_000_000
    problems: int = 100_000
    described: int = 20
