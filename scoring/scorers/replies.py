"""Replies of a remote scorer, kept so that interrupted work goes on where it stopped."""

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
    """A folder of JSON lines. Each writer has a file of its own, so a killed one spoils at most its own last line."""

    def __init__(self, folder: Path) -> None:
        """Read what is in `folder`, which is made where it is missing. Raises OSError when it cannot be read."""
        folder.mkdir(parents=True, exist_ok=True)
        self._replies: dict[str, Reply] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                try:
                    key, reply = json.loads(line)
                except ValueError:
                    continue  # cut off as its writer was killed: that text is asked about again
                self._replies[key] = reply
        self._path = folder / f"{uuid.uuid4().hex}.jsonl"

    def __contains__(self, key: object) -> bool:
        return key in self._replies

    def __getitem__(self, key: str) -> Reply:
        return self._replies[key]

    def __setitem__(self, key: str, reply: Reply) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, reply]) + "\n")
        self._replies[key] = reply
