"""Bytes of a contributed file, unpacked piece by piece and counted; its lines; its characters."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from scoring.contributed.report import Flaw, Problems

PIECE = 2**16
RATIO_FROM = 2**24  # uncompressed bytes; what is smaller harms nobody, however well it packs
SAVE_AS_UTF8 = "save the file as UTF-8"
SEND_AGAIN = "the file is not whole: write and send it again"
BOM = codecs.BOM_UTF8


class _Sent:
    """A file whose bytes are counted as they are read."""

    def __init__(self, file: BinaryIO, problems: Problems) -> None:
        self._file, self._problems = file, problems
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self.count += len(piece)
        most = self._problems.limits.sent_bytes
        if self.count > most:
            self._problems.stop(Flaw.TOO_LARGE, None, None, f"more than {most:,} bytes", "send a smaller file")
        return piece


def check_size(file: BinaryIO, problems: Problems) -> int:
    """The size of a seekable file in bytes. Raises ContributionRefused when it is too large."""
    size, most = file.seek(0, 2), problems.limits.sent_bytes
    if size > most:
        problems.stop(Flaw.TOO_LARGE, None, None, f"{size:,} bytes", f"send at most {most:,}")
    return size


def pieces(file: BinaryIO, is_gzip: bool, problems: Problems) -> Iterator[bytes]:
    """The file's bytes from its start, unpacked where it is gzip. Raises ContributionRefused at a limit or damage."""
    file.seek(0)
    upload, limits = _Sent(file, problems), problems.limits
    source = gzip.GzipFile(fileobj=cast(BinaryIO, upload), mode="rb") if is_gzip else upload
    total = 0
    while True:
        try:
            piece = source.read(PIECE)
        except EOFError:
            problems.stop(Flaw.TRUNCATED, None, None, "gzip without its end", SEND_AGAIN)
        except (gzip.BadGzipFile, zlib.error):
            problems.stop(Flaw.NOT_GZIP, None, None, f"after {total:,} bytes", "pack it again, or send it unpacked")
        if not piece:
            return
        total += len(piece)
        if total > limits.uncompressed_bytes:
            most = f"more than {limits.uncompressed_bytes:,} bytes unpacked"
            problems.stop(Flaw.BOMB if is_gzip else Flaw.TOO_LARGE, None, None, most, "send a smaller file")
        if is_gzip and total > max(RATIO_FROM, limits.compression_ratio * upload.count):
            size_words = f"{total:,} bytes in {upload.count:,}"
            problems.stop(
                Flaw.BOMB, None, None, size_words, f"send it unpacked: at most {limits.compression_ratio} times"
            )
        yield piece


def lines(source: Iterator[bytes], problems: Problems) -> Iterator[tuple[int, str]]:
    """Number and text of each line, without its "\\n" and the file's BOM. Raises ContributionRefused."""
    start = 0
    for number, line in enumerate(_split(source, problems), start=1):
        content = line.removeprefix(BOM) if number == 1 else line
        try:
            yield number, content.decode()
        except UnicodeDecodeError as error:
            bad = error.start + len(line) - len(content)
            byte_position = f"byte {bad + 1:,} of the line, {start + bad + 1:,} of the file"
            problems.stop(Flaw.NOT_UTF8, number, None, byte_position, SAVE_AS_UTF8)
        start += len(line) + 1


def _split(source: Iterator[bytes], problems: Problems) -> Iterator[bytes]:
    rest, number, most = b"", 1, problems.limits.line_bytes
    for piece in source:
        *whole, rest = (rest + piece).split(b"\n")
        for line in [*whole, rest]:
            if len(line) > most:
                problems.stop(Flaw.TOO_LONG, number, None, f"more than {most:,} bytes", "give one record a line")
            number += 1
        number -= 1
        yield from whole
    if rest:
        yield rest


def characters(source: Iterator[bytes], problems: Problems) -> Iterator[str]:
    """The characters of UTF-8, piece by piece, without BOM. Raises ContributionRefused at the first bad byte."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    byte_count, start = 0, 0  # start: of what the decoder is given together with what it holds
    try:
        for piece in source:
            start = byte_count - len(decoder.getstate()[0])
            text = decoder.decode(piece)
            yield text if byte_count else text.removeprefix("\ufeff")
            byte_count += len(piece)
        start = byte_count - len(decoder.getstate()[0])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        problems.stop(Flaw.NOT_UTF8, None, None, f"byte {start + error.start + 1:,} of the file", SAVE_AS_UTF8)
