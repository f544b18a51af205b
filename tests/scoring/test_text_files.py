"""Texts in files: one a line, JSON Lines, or a JSON list; what is none is refused with its place and a remedy."""

import json
from pathlib import Path

import pytest

from scoring.text_files import UnreadableTexts, read_texts

TEXTS = ["Zoë, at noon", "two  blanks ", "a \u2028 inside"]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def write(path: Path, texts: list[str], ending: str = "\n") -> Path:
    """A file of these texts in the form that its name says, as some programs save it."""
    rows = {
        ".json": lambda: json.dumps([{"text": text} for text in texts], ensure_ascii=False),
        ".jsonl": lambda: ending.join(json.dumps({"text": text}, ensure_ascii=False) for text in texts),
        ".txt": lambda: ending.join(texts),
    }
    path.write_bytes(BYTE_ORDER_MARK + rows[path.suffix]().encode())
    return path


@pytest.mark.parametrize("name", ["texts.json", "texts.jsonl", "texts.txt"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_texts_are_read_as_they_are_whatever_marks_the_file_has(tmp_path, name, ending):
    assert list(read_texts(write(tmp_path / name, TEXTS, ending))) == TEXTS


def test_a_list_may_hold_texts_themselves_and_fields_may_lie_deeper(tmp_path):
    path = tmp_path / "texts.json"
    path.write_text('["a", {"answers": [{"text": "b"}]}]')
    assert list(read_texts(path, "answers.0.text")) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("texts.json", b'{"text": "a"}', "texts.json is not a list: give a list of objects with text"),
        ("texts.json", b'[{"text": "a"}, {}]', "record 2, text: is missing or no string"),
        ("texts.jsonl", b'{"text": "a"}\n{"text": 1}', "line 2, text: is missing or no string"),
        ("texts.jsonl", b'{"text": ', "texts.jsonl is not JSON .*: correct it, or name it .txt"),
        (
            "texts.txt",
            b"one\n" * 5000 + b"caf\xe9\n",
            "line 5001 is not UTF-8 .* at its byte 4.: save the file as UTF-8",
        ),
        ("texts.json", b'["caf\xe9"]', "texts.json is not UTF-8 .* at its byte 6.: save the file as UTF-8"),
    ],
)
def test_what_is_no_file_of_texts_is_refused_with_its_place_and_a_remedy(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UnreadableTexts, match=message):
        list(read_texts(path))
