"""Spoilt inputs: a seed file, changed by what its format is made of. Each is fixed by a number, so none is stored."""

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

LONG = "Zq" * 300  # what no message may repeat
NAMES = ("text", "id", "label", "index", "", "__metadata__", "auto_map", "dtype", "a" * 300)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**40, 1e308, -1e-308, float("nan"), float("inf")),
    *("", " ", LONG, "\u0000", "\ud800", "=1+1", "\u202egnp", "0", "true", "../../etc/passwd", "http://127.0.0.1:9/"),
    *([], {}, [[]], [None] * 50, {"": {"": {}}}, [{}], [1, "a"], [0.5] * 20),
)
TOKENS = (
    *(b"", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b",", b'"', b'""', b"\\"),
    *(b"{", b"}", b"[", b"]", b":", b"null", b"NaN", b"-", b"1e999", b"9" * 5000, b"[" * 3000, b'{"a":' * 2000),
    *(b"PK\x03\x04", b"PAR1", b"GGUF", b"\x1f\x8b", LONG.encode(), b"\xff" * 8, bytes(8)),
    *(b"=cmd|x", b"%00", b"&", b"=", b"\\u"),
)
Mutation = Callable[[bytes, random.Random], bytes]


def spoil_bytes(content: bytes, draw: random.Random) -> bytes:
    """Flip, cut, repeat or insert a few bytes."""
    spoilt = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        start = draw.randrange(len(spoilt) + 1)
        end = min(len(spoilt), start + draw.choice((1, 1, 2, 8, 64, 512)))
        way = draw.randrange(5)
        if way == 0 and spoilt[start:end]:
            spoilt[start] ^= 1 << draw.randrange(8)
        elif way == 1:
            del spoilt[start:end]
        elif way == 2:
            spoilt[start:start] = spoilt[start:end] * draw.choice((1, 2, 40))
        elif way == 3:
            spoilt[start:end] = draw.choice(TOKENS)
        else:
            spoilt = spoilt[:start] if draw.random() < 0.2 else spoilt
    return bytes(spoilt)


def spoil_value(value: Any, draw: random.Random) -> Any:
    """Change one place of what JSON holds: another value, a member fewer, more or of another name."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        name = draw.choice(list(value))
        way = draw.randrange(8)
        others = {key: member for key, member in value.items() if key != name}
        if way == 0:
            return others
        if way == 1:
            return others | {draw.choice(NAMES): value[name]}
        if way == 2:
            return value | {draw.choice(NAMES): draw.choice(VALUES)}
        return value | {name: spoil_value(value[name], draw)}
    if isinstance(value, list) and value and draw.random() < 0.85:
        place = draw.randrange(len(value))
        way = draw.randrange(6)
        if way == 0:
            return value[:place] + value[place + 1 :]
        if way == 1:
            return value[:place] + [value[place]] * draw.choice((2, 50)) + value[place:]
        return [*value[:place], spoil_value(value[place], draw), *value[place + 1 :]]
    return draw.choice(VALUES)


def spoil_json(content: bytes, draw: random.Random) -> bytes:
    """Change what a JSON text holds, or the text."""
    if draw.random() < 0.3:
        return spoil_bytes(content, draw)
    value = json.loads(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        value = spoil_value(value, draw)
    return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")


def spoil_lines(content: bytes, draw: random.Random) -> bytes:
    """Change some lines of JSON, their order or the text."""
    if draw.random() < 0.3:
        return spoil_bytes(content, draw)
    lines = content.splitlines()
    for _ in range(draw.choice((1, 1, 2, 4))):
        place = draw.randrange(len(lines))
        way = draw.randrange(8)
        if way == 0:
            lines.append(lines[place])
        elif way == 1:
            lines[place] = b""
        else:
            lines[place] = spoil_json(lines[place] if lines[place].startswith(b"{") else b"{}", draw)
    return b"\n".join(lines)


def spoil_table(content: bytes, draw: random.Random) -> bytes:
    """Change cells of a CSV file, its head or the text."""
    if draw.random() < 0.4:
        return spoil_bytes(content, draw)
    rows = [line.split(b",") for line in content.splitlines()]
    for _ in range(draw.choice((1, 2, 4))):
        row = draw.choice(rows)
        place = draw.randrange(len(row))
        way = draw.randrange(4)
        if way == 0 and len(row) > 1:
            del row[place]
        elif way == 1:
            row.insert(place, draw.choice(row))
        else:
            row[place] = str(draw.choice(VALUES)).encode("utf-8", "surrogatepass")
    return b"\n".join(b",".join(row) for row in rows)


def spoil_zip(content: bytes, draw: random.Random) -> bytes:
    """Change a member of a zip file, or its bytes."""
    if draw.random() < 0.4:
        return spoil_bytes(content, draw)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(list(members))
    way = draw.randrange(6)
    if way == 0:
        del members[name]
    elif way == 1:
        members[draw.choice(("../up", "/absolute", "a" * 300, "x\\y", name.upper()))] = members.pop(name)
    else:
        members[name] = (spoil_json if members[name][:1] in b"{[" else spoil_bytes)(members[name], draw)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return buffer.getvalue()


def spoil_header(content: bytes, draw: random.Random) -> bytes:
    """Change the header of a safetensors file, mostly with a length that fits."""
    if draw.random() < 0.3:
        return spoil_bytes(content, draw)
    length = struct.unpack("<Q", content[:8])[0]
    header = spoil_json(content[8 : 8 + length], draw)
    stated = len(header) if draw.random() < 0.9 else draw.choice((0, 1, len(header) + 1, 2**40, 2**64 - 1))
    return struct.pack("<Q", stated) + header + content[8 + length :]


def spoil_query(content: bytes, draw: random.Random) -> bytes:
    """Change the names and values of a query string, or its bytes."""
    if draw.random() < 0.3:
        return spoil_bytes(content, draw)
    pairs = [pair.partition(b"=")[::2] for pair in content.split(b"&")]
    for _ in range(draw.choice((1, 2, 4))):
        place = draw.randrange(len(pairs))
        value = draw.choice((pairs[place][1], str(draw.choice(VALUES)).encode("utf-8", "surrogatepass")))
        pairs.insert(place, (draw.choice(pairs)[0], value))
    return b"&".join(name + b"=" + value for name, value in pairs)
