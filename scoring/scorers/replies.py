"""Replies of a remote scorer, kept so that interrupted work goes on where it stopped."""

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any, Protocol

Reply = dict[str, Any]  # what JSON can hold


class ReplyStore(Protocol):
    """Replies by key; a dict is one. Use one for one check or rescoring only: a later one has to ask again."""

    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: str, /) -> Reply: ...
    def __setitem__(self, key: str, reply: Reply, /) -> None: ...


class JsonLinesReplies:
    """A folder of JSON lines. Each writer has a file of its own, so a killed one spoils at most its own last line.

    identity: of the work that the replies are for. Each line begins with the hash of that and of the rest of the line,
    so that what is damaged, or of other work, is not read.
    """

    def __init__(self, folder: Path, identity: str = "") -> None:
        """Read what is in `folder`, which is made where it is missing. Raises OSError when it cannot be read."""
        self._identity = identity
        folder.mkdir(parents=True, exist_ok=True)
        self._replies: dict[str, Reply] = {}
        # A reply that was asked for again is in a file that was written later, and counts.
        for path in sorted(folder.glob("*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
            for line in path.read_bytes().splitlines():
                digest, _, rest = line.partition(b" ")
                if digest != self._digest(rest):
                    continue  # cut off as its writer was killed, or not of this work: that text is asked about again
                key, reply = json.loads(rest)
                self._replies[key] = reply
        self._path = folder / f"{uuid.uuid4().hex}.jsonl"

    def __contains__(self, key: object) -> bool:
        return key in self._replies

    def __getitem__(self, key: str) -> Reply:
        return self._replies[key]

    def __setitem__(self, key: str, reply: Reply) -> None:
        rest = json.dumps([key, reply]).encode()
        with self._path.open("ab") as file:
            file.write(self._digest(rest) + b" " + rest + b"\n")
        self._replies[key] = reply

    def _digest(self, rest: bytes) -> bytes:
        return hashlib.sha256(self._identity.encode() + b"\0" + rest).hexdigest()[:32].encode()
