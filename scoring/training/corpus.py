"""Reads the text that the bundled miniatures are trained on."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

UNKNOWN = "<unk>"
SHORTEST_DOCUMENT = 40  # characters; below it BOLD holds mostly fragments of references
HELD_OUT_SHARE = 0.04

_WIKITEXT_JOINS = [(" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", ".")]
_SPACE_BEFORE = re.compile(r"\s+([.,;:!?%)\]])")
_SPACE_AFTER = re.compile(r"([(\[])\s+")
_QUOTED = re.compile(r'"\s*([^"]*?)\s*"')
_APOSTROPHE = re.compile(r"\s+('(?:s|re|ve|d|ll|m|t)?)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z\"])")


def wikitext_documents(folder: Path, names: Sequence[str] = ("valid.txt", "test.txt")) -> Iterator[str]:
    """Yield runs of neighbouring sentences of WikiText-2, detokenised, without headings.

    A sentence that holds an unknown word is left out and ends the run, so that no document is
    missing words.
    """
    for name in names:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            line = line.strip()
            if not line or line.startswith("="):
                continue
            run: list[str] = []
            for sentence in _SENTENCE_END.split(line):
                if UNKNOWN in sentence:
                    if run:
                        yield detokenise(" ".join(run))
                    run = []
                else:
                    run.append(sentence)
            if run:
                yield detokenise(" ".join(run))


def detokenise(text: str) -> str:
    """Undo WikiText's spacing round punctuation."""
    for spaced_mark, mark in _WIKITEXT_JOINS:
        text = text.replace(spaced_mark, mark)
    text = _SPACE_BEFORE.sub(r"\1", text)
    text = _SPACE_AFTER.sub(r"\1", text)
    text = _APOSTROPHE.sub(r"\1", text)
    return _QUOTED.sub(r'"\1"', text)


def bold_documents(folder: Path) -> Iterator[str]:
    """Yield the Wikipedia sentences of BOLD. A file may hold several JSON values in a row."""
    decoder = json.JSONDecoder()
    for path in sorted(folder.glob("*_wiki.json")):
        text = path.read_text(encoding="utf-8")
        position = 0
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            for entities in value.values():
                for sentences in entities.values():
                    yield from (" ".join(sentence.split()) for sentence in sentences)
            while position < len(text) and text[position].isspace():
                position += 1


def load_corpus(data: Path, seed: int) -> tuple[list[str], list[str]]:
    """Return (training, held-out) documents of WikiText-2 and BOLD's Wikipedia text.

    Duplicates are dropped before the split, so no held-out document was trained on.
    Raises FileNotFoundError, naming the folder, when the data is not there.
    """
    sources = {"wikitext-2": wikitext_documents, "bold/wikipedia": bold_documents}
    documents: dict[str, None] = {}
    for folder, read_documents in sources.items():
        if not (data / folder).is_dir():
            raise FileNotFoundError(f"{data / folder} is missing: set --data to the folder that holds {folder}")
        documents.update(dict.fromkeys(read_documents(data / folder)))
    long_documents = [document for document in documents if len(document) >= SHORTEST_DOCUMENT]
    random.Random(seed).shuffle(long_documents)  # noqa: S311 (a shuffle, not a secret)
    held_out = round(len(long_documents) * HELD_OUT_SHARE)
    return long_documents[held_out:], long_documents[:held_out]


def write_texts(data: Path, output: Path) -> list[Path]:
    """Write the texts, one a line, each once: wikitext-valid.txt, wikitext-test.txt and bold-wikipedia.txt in `output`.

    Raises FileNotFoundError, naming the folder, when the data is not there.
    """
    output.mkdir(parents=True, exist_ok=True)
    sources: dict[str, tuple[str, Callable[[Path], Iterator[str]]]] = {
        "wikitext-valid.txt": ("wikitext-2", partial(wikitext_documents, names=["valid.txt"])),
        "wikitext-test.txt": ("wikitext-2", partial(wikitext_documents, names=["test.txt"])),
        "bold-wikipedia.txt": ("bold/wikipedia", bold_documents),
    }
    for name, (folder, read_source) in sources.items():
        if not (data / folder).is_dir():
            raise FileNotFoundError(f"{data / folder} is missing: set --data to the folder that holds {folder}")
        documents = dict.fromkeys(read_source(data / folder))
        lines = [document for document in documents if len(document) >= SHORTEST_DOCUMENT]
        (output / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [output / name for name in sources]
