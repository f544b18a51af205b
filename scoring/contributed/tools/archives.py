"""Members of a zip file that somebody sent, unpacked one at a time, in memory, with limits.

Nothing is written to a path that the file names. Zstandard, which Inspect packs with, is read by Arrow.
"""

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, BinaryIO, cast

import pyarrow as pa

from scoring.contributed import stream
from scoring.contributed.report import Flaw, Problems, shown_name

LARGEST_DIRECTORY = 2**23  # bytes: some hundred thousand members
_END, _END_64, _LOCATOR_64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_LOCAL = struct.Struct("<4s5H3L2H")
_STORED, _DEFLATED, _ZSTANDARD = 0, 8, 93
_ENCRYPTED = 0x1
_LINK = 0o120000
_LEADS_OUT = re.compile(r"^[/\\]|^[A-Za-z]:[/\\]|(^|[/\\])\.\.([/\\]|$)|\0")  # absolute, or upwards


class Archive:
    """A zip file, opened. Raises ContributionRefused where it is none, or where a name in it leads out of it."""

    def __init__(self, file: BinaryIO, problems: Problems) -> None:
        self._file, self._problems = file, problems
        self._size = stream.check_size(file, problems)
        self._unpacked = 0
        self._check_directory()
        try:
            self._members = {member.filename: member for member in self._list_members()}
        except (zipfile.BadZipFile, struct.error, ValueError, OverflowError, NotImplementedError):
            problems.stop(Flaw.NOT_ZIP, None, None, "its directory", stream.SEND_AGAIN)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def _check_directory(self) -> None:
        """Raises ContributionRefused where the directory is missing or too large for the standard library to read."""
        self._file.seek(max(0, self._size - 98))  # 56 + 20 + 22 bytes: the ends of zip64 and zip
        tail = self._file.read(98)
        if tail[-22:-18] != _END or tail[-2:] != b"\0\0":
            self._problems.stop(Flaw.TRUNCATED, None, None, "a zip file without its end", stream.SEND_AGAIN)
        size = int.from_bytes(tail[-10:-6], "little")
        if tail[-42:-38] == _LOCATOR_64 and tail[-98:-94] == _END_64:
            size = int.from_bytes(tail[-58:-50], "little")
        if size > LARGEST_DIRECTORY:
            self._problems.stop(Flaw.BOMB, None, None, f"a directory of {size:,} bytes", "send fewer members")

    def _list_members(self) -> Iterator[zipfile.ZipInfo]:
        names: set[str] = set()
        with zipfile.ZipFile(self._file) as archive:
            for member in archive.infolist():
                name = member.orig_filename
                link = member.external_attr >> 16 & 0o170000 == _LINK
                if _LEADS_OUT.search(name) or link:
                    remedy = "send the log as Inspect wrote it"
                    self._problems.stop(Flaw.PATH, None, None, f"member {shown_name(name)}", remedy)
                if name in names:
                    self._problems.stop(Flaw.DUPLICATE, None, None, f"member {shown_name(name)}", stream.SEND_AGAIN)
                names.add(name)
                yield member

    def read(self, name: str, line: int | None = None) -> bytes:
        """A member's bytes, at most line_bytes of them. Raises ContributionRefused."""
        member, limits = self._members[name], self._problems.limits
        if max(member.file_size, member.compress_size) > limits.line_bytes:
            remedy = f"send a log whose samples have at most {limits.line_bytes:,} bytes"
            self._problems.stop(Flaw.TOO_LONG, line, None, f"{member.file_size:,} bytes in a member", remedy)
        content = self._unpack(member, self._read_packed(member, line), line)
        if len(content) != member.file_size:
            size_words = f"a member of {member.file_size:,} bytes that unpacks to {len(content):,} or more"
            self._problems.stop(Flaw.BOMB, line, None, size_words, "send the log as Inspect wrote it")
        if zlib.crc32(content) != member.CRC:
            self._problems.stop(Flaw.NOT_ZIP, line, None, "a damaged member", stream.SEND_AGAIN)
        self._unpacked += len(content)
        if self._unpacked > min(
            limits.uncompressed_bytes, max(stream.RATIO_FROM, limits.compression_ratio * self._size)
        ):
            size_words = f"{self._unpacked:,} bytes in {self._size:,}"
            self._problems.stop(Flaw.BOMB, line, None, size_words, "send a smaller log")
        return content

    def open(self, name: str) -> BinaryIO:
        """A member as a seekable file, unpacked as it is read. Raises ContributionRefused, as does reading it."""
        member, limits = self._members[name], self._problems.limits
        most = max(stream.RATIO_FROM, limits.compression_ratio * member.compress_size)
        if member.file_size > min(limits.uncompressed_bytes, most):
            size_words = f"{member.file_size:,} bytes in {member.compress_size:,}"
            self._problems.stop(Flaw.BOMB, None, None, size_words, "send it as it is, or packed with gzip")
        try:
            return cast(BinaryIO, _Member(zipfile.ZipFile(self._file).open(member), self._problems))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, ValueError):
            # A method of packing, a password, or a place before the file's beginning.
            self._problems.stop(Flaw.NOT_ZIP, None, None, "a damaged or encrypted member", stream.SEND_AGAIN)

    def _read_packed(self, member: zipfile.ZipInfo, line: int | None) -> bytes:
        self._file.seek(max(0, member.header_offset))  # a damaged directory gives places before the beginning
        header = self._file.read(_LOCAL.size)
        if len(header) == _LOCAL.size and header[:4] == b"PK\x03\x04" and not member.flag_bits & _ENCRYPTED:
            *_, names, extra = _LOCAL.unpack(header)
            self._file.seek(names + extra, io.SEEK_CUR)
            content = self._file.read(member.compress_size)
            if len(content) == member.compress_size:
                return content
        self._problems.stop(Flaw.NOT_ZIP, line, None, "a damaged or encrypted member", stream.SEND_AGAIN)

    def _unpack(self, member: zipfile.ZipInfo, member_bytes: bytes, line: int | None) -> bytes:
        """The content, or one byte more than the directory claims."""
        most = member.file_size + 1
        try:
            if member.compress_type == _STORED:
                return member_bytes[:most]
            if member.compress_type == _DEFLATED:
                return zlib.decompressobj(-zlib.MAX_WBITS).decompress(member_bytes, most)
            if member.compress_type == _ZSTANDARD:
                with pa.CompressedInputStream(pa.BufferReader(member_bytes), "zstd") as stream_reader:
                    content: bytes = stream_reader.read(most)
                    return content
        except (zlib.error, pa.ArrowException, OSError):
            self._problems.stop(Flaw.NOT_ZIP, line, None, "a damaged member", stream.SEND_AGAIN)
        self._problems.stop(Flaw.NOT_ZIP, line, None, f"compression {member.compress_type}", "use deflate or Zstandard")


class _Member:
    """A member that is read piece by piece. The standard library stops at the size that the directory says."""

    def __init__(self, file: IO[bytes], problems: Problems) -> None:
        self._file, self._problems = file, problems

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        try:
            return self._file.read(size)
        except (zipfile.BadZipFile, zlib.error, EOFError):
            self._problems.stop(Flaw.NOT_ZIP, None, None, "a damaged member", stream.SEND_AGAIN)
