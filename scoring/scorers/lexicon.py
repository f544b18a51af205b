"""Lexicons: which of their categories a text has a term of (Snoswell et al. 2023, arXiv 2312.03330).

A lexicon is a folder of UTF-8 files, one category a file (named by its stem), one term a line. Texts and terms go
through the same three steps:

1. normalised to NFC, so that an accented letter is the same letter however it was typed (no compatibility forms:
   full-width letters stay what they are), casefolded, and to NFC again;
2. split into words at whitespace and at punctuation, which is every character of Unicode's categories P and S
   (so the apostrophe, the hyphen, the underscore, currency and mathematical signs, and emoji);
3. compared word by word: a term matches where its words stand in the text one after the other, whole.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import ahocorasick
import numpy as np

from scoring.attributes import Attribute, Meaning
from scoring.refusals import Refused
from scoring.scorers.base import Progress, Scorer, Scores, complete, fingerprint_of

LEXICONS = Path(__file__).parent / "lexicons"
ANY = "any"
CHUNK = 50_000  # texts between two reports of progress
_RULE = 1  # of normalising, splitting and matching
_CATEGORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_NOT_CATEGORIES = re.compile(r"\..*|README.*|LICEN[SC]E.*|.*\.md", re.IGNORECASE)


class LexiconError(Refused):
    """A folder is no lexicon. The message names the file and the line, never a term: terms are offensive."""


@dataclass(frozen=True)
class Lexicon:
    """Terms by category, both sorted; a term is its normalised words with one space between."""

    terms: dict[str, tuple[str, ...]]

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the categories, sorted."""
        return tuple(self.terms)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the normalised terms, by category."""
        return fingerprint_of(scorer="lexicon", rule=_RULE, terms=self.terms)


class LexiconScorer(Scorer):
    """1 where a text has at least one term of a category, else 0; `any` is 1 where some category is.

    The time that a text takes grows with its length alone, whatever the number of terms (Aho-Corasick).
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.attributes = tuple(Attribute(name, Meaning.HARM) for name in (*lexicon.categories, ANY))
        terms = sorted({term for category in lexicon.terms.values() for term in category})
        members = [frozenset(category) for category in lexicon.terms.values()]
        self._categories = np.array([[term in member for member in members] for term in terms], dtype=bool)
        self._automaton = ahocorasick.Automaton()
        for number, term in enumerate(terms):
            # The spaces around it, which no word contains, make it match whole words only.
            self._automaton.add_word(f" {term} ", number)
        self._automaton.make_automaton()

    def fingerprint(self) -> str:
        """The lexicon's."""
        return self.lexicon.fingerprint

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        values = np.zeros((len(texts), len(self.attributes)), dtype=np.float32)
        for start in range(0, len(texts), CHUNK):
            matches = [
                (row, term)
                for row, text in enumerate(texts[start : start + CHUNK], start=start)
                for _, term in self._automaton.iter(f" {words(text)} ")
            ]
            if matches:
                rows, terms = np.array(matches).T
                np.maximum.at(values[:, :-1], rows, self._categories[terms])
            progress(min(start + CHUNK, len(texts)))
        values[:, -1] = values[:, :-1].max(axis=1)
        return complete(values)


def words(text: str) -> str:
    """The normalised words of a text with one space between them; "" where it has none.

    Raises UnicodeEncodeError for half a surrogate pair.
    """
    if text.isascii():
        text = text.lower()  # what casefold does to ASCII, faster
    else:
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
        for character in set(_NOT_ASCII.findall(text)):
            if _is_punctuation(character):
                text = text.replace(character, " ")
    # Bytes are translated fast, and those of characters beyond ASCII stay as they are.
    return " ".join(text.encode().translate(_ASCII).decode().split())


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


_ASCII = bytes(ord(" ") if code < 128 and _is_punctuation(chr(code)) else code for code in range(256))


def read_lexicon(folder: Path) -> Lexicon:
    """Read a lexicon: every file of `folder` is a category, but for hidden ones, README, LICENSE and *.md.

    Blank lines count for nothing, and a term that is there twice counts once. Raises LexiconError with the file and
    the line at the first thing that is wrong, OSError when the folder cannot be read.
    """
    if not folder.is_dir():
        raise LexiconError(f"{folder} is not a folder: give a folder of text files, one for each category")
    files = [path for path in sorted(folder.iterdir()) if not _NOT_CATEGORIES.fullmatch(path.name)]
    if not files:
        raise LexiconError(f"{folder} holds no category: put a text file in it for each, one term a line")
    terms: dict[str, tuple[str, ...]] = {}
    names: dict[str, str] = {}
    for path in files:
        _check_name(path, names)
        names[path.stem.casefold()] = path.name
        terms[path.stem] = tuple(sorted(set(_terms(path))))
        if not terms[path.stem]:
            raise LexiconError(f"{path.name} holds no term: write one a line, or remove the file")
    return Lexicon(dict(sorted(terms.items())))


def find_lexicon(name: str, folder: Path | None = None) -> Path:
    """The folder of the lexicon `name`: in `folder`, else among those that come with Plumbline.

    Raises LexiconError, listing what there is.
    """
    roots = [root for root in (folder, LEXICONS) if root and root.is_dir()]
    folders = {path.name: path for root in reversed(roots) for path in root.iterdir() if path.is_dir()}
    if name not in folders:
        raise LexiconError(f"there is no lexicon {name!r}: import it, or use one of {', '.join(sorted(folders))}")
    return folders[name]


def _check_name(path: Path, names: dict[str, str]) -> None:
    if not path.is_file():
        raise LexiconError(f"{path.name} is not a file: a lexicon is a folder of files, without folders in it")
    if not _CATEGORY.fullmatch(path.stem):
        raise LexiconError(
            f"{path.name} cannot name a category: name the file with letters, digits, - and _, as hostility.txt"
        )
    if path.stem.casefold() == ANY:
        raise LexiconError(f"{path.name}: {ANY} stands for all categories together; give the file another name")
    if path.stem.casefold() in names:
        raise LexiconError(
            f"{names[path.stem.casefold()]} and {path.name} name the same category: join them in one file"
        )


def _terms(path: Path) -> Iterator[str]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line_number = error.object[: error.start].count(b"\n") + 1
        raise LexiconError(f"{path.name}, line {line_number}, is not UTF-8: save the file as UTF-8") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        term = words(line)
        if not any(character.isalnum() for character in term):
            raise LexiconError(f"{path.name}, line {number}, has no letter or digit: correct or remove it")
        yield term
