"""Messages between a supervisor and the process in a cage: a small JSON object, and perhaps a table of Arrow.

A message is two lengths, the JSON, then frames of at most FRAME bytes, each an IPC stream of one schema. Whoever reads
bounds every length before anything is allocated for it, and takes no compressed buffers, whose size only their
contents tell. Nothing is ever unpickled.
"""

import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from scoring.cage.limits import MIB, CageBroken

HEAD = struct.Struct("<II")  # bytes of the JSON, frames that follow
LENGTH = struct.Struct("<I")
MOST_JSON = MIB
FRAME = 32 * MIB  # that a sender aims at
MOST_FRAME = 128 * MIB  # a few rows may be that large
MOST_FRAMES = 2**12
RECORD_BATCH, COMPRESSION = 3, 3  # in Arrow's Message.fbs: a kind of header, and the place of its field


class Closed(Exception):
    """The other side is gone."""


class Pipe:
    """One end of a socket. `look` is called every moment while something is awaited; what it raises passes through.

    Whoever never stops to send, be it a byte at a time, does not keep it from being called.
    """

    def __init__(
        self, end: socket.socket, look: Callable[[], None] = lambda: None, moment: float | None = None
    ) -> None:
        self._end, self._look, self._moment = end, look, moment
        self._looked_at = time.monotonic()
        end.settimeout(moment)

    def close(self) -> None:
        """Hang up."""
        self._end.close()

    def send(self, values: dict[str, Any], table: pa.Table | None = None) -> None:
        """Send a message. Raises Closed."""
        content = json.dumps(values).encode()
        if len(content) > MOST_JSON:
            raise ValueError(f"a message of {len(content):,} bytes: at most {MOST_JSON:,} are read")
        frames = [] if table is None else _frames(table)
        self._write(HEAD.pack(len(content), len(frames)) + content)
        for frame in frames:
            self._write(LENGTH.pack(frame.size))
            self._write(memoryview(frame))

    def receive(self, schema: pa.Schema | None = None, most: int = 0) -> tuple[dict[str, Any], pa.Table | None]:
        """The next message; its table, where it has one, of `schema` and at most `most` bytes.

        Raises Closed, and CageBroken for what is no such message.
        """
        length, frames = HEAD.unpack(self._read(HEAD.size))
        if length > MOST_JSON or frames > (MOST_FRAMES if schema else 0):
            raise CageBroken(f"a message of {length:,} bytes and {frames:,} tables: that is no answer")
        try:
            values = json.loads(bytes(self._read(length)))
        except (ValueError, RecursionError) as error:
            raise CageBroken(f"a message that is not JSON: {type(error).__name__}") from error
        if not isinstance(values, dict):
            raise CageBroken("a message that is no JSON object")
        batches: list[pa.RecordBatch] = []
        for _ in range(frames):
            (size,) = LENGTH.unpack(self._read(LENGTH.size))
            most -= size
            if size > MOST_FRAME or most < 0:
                raise CageBroken("a table that is larger than it may be")
            batches += read_batches(self._read(size), schema)
        return values, pa.Table.from_batches(batches, schema) if frames else None

    def _look_if_due(self) -> None:
        now = time.monotonic()
        if self._moment is not None and now - self._looked_at >= self._moment:
            self._looked_at = now
            self._look()

    def _write(self, content: bytes | memoryview) -> None:
        rest = memoryview(content)
        while rest:
            self._look_if_due()
            try:
                rest = rest[self._end.send(rest) :]
            except TimeoutError:
                continue
            except OSError as error:
                raise Closed from error

    def _read(self, size: int) -> bytearray:
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            self._look_if_due()
            try:
                count = self._end.recv_into(rest)
            except TimeoutError:
                continue
            except OSError as error:
                raise Closed from error
            if not count:
                raise Closed
            rest = rest[count:]
        return content


def _frames(table: pa.Table) -> list[pa.Buffer]:
    """The table as IPC streams of about FRAME bytes, one at least."""
    rows = table.num_rows
    step = max(1, rows * FRAME // max(1, table.nbytes))
    frames = []
    for start in range(0, max(1, rows), step):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.slice(start, step).combine_chunks())
        frames.append(sink.getvalue())
    return frames


def read_batches(content: bytes | bytearray, schema: pa.Schema | None) -> list[pa.RecordBatch]:
    """The record batches of an IPC stream from a stranger, every value checked. Raises CageBroken."""
    try:
        source = pa.BufferReader(content)
        messages = iter(pa.ipc.MessageReader.open_stream(source))
        for message in messages:
            if is_compressed(message.metadata.to_pybytes()):
                raise CageBroken("a table with compressed buffers")
        with pa.ipc.open_stream(pa.BufferReader(content)) as stream:
            if not stream.schema.equals(schema):
                raise CageBroken("a table of another kind than was asked for")
            batches = list(stream)
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, struct.error, IndexError, MemoryError, OSError) as error:
        raise CageBroken(f"a table that cannot be read: {type(error).__name__}") from error
    return batches


def is_compressed(metadata: bytes) -> bool:
    """Whether a message's header, a flatbuffer, says that its buffers are compressed. Raises struct.error."""

    def field(table: int, number: int) -> int:
        """Where the field of a table stands; 0 where it has none."""
        layout = table - struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, layout)[0]
        place = 4 + 2 * number
        offset = struct.unpack_from("<H", metadata, layout + place)[0] if place + 2 <= size else 0
        return table + offset if offset else 0

    root = struct.unpack_from("<I", metadata, 0)[0]
    kind, header = field(root, 1), field(root, 2)
    if not kind or not header or metadata[kind] != RECORD_BATCH:
        return False
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return bool(field(batch, COMPRESSION))
