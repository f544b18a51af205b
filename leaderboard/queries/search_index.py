"""The index of the search in the database: full text on SQLite (FTS5) and on PostgreSQL, with the same answers.

Misspelt words are found by three letters in a row: the database gives the pages that share some, and names are compared
here, so that both databases agree and no extension is needed.
"""

import json

from django.db import connection, transaction

from leaderboard.models import SearchPage, SearchState
from leaderboard.queries.search_entries import EntryKind, SearchEntry, list_entries, split_words
from leaderboard.queries.stamp import board_stamp
from leaderboard.services.build import code

MOST_CANDIDATES = 400
CLOSE = 0.4  # similarity of a suggestion, from 0 to 1
COLUMNS = ("kind", "title", "note", "address", "words", "names", "keys", "text", "grams")


def refresh_index() -> bool:
    """Make the index again if the board or its code changed since; returns whether it was. Writes what differs only."""
    stamp = json.dumps([code(), board_stamp().kept])
    if SearchState.objects.filter(stamp=stamp).exists():
        return False
    with transaction.atomic():
        state = SearchState.objects.select_for_update().get_or_create(pk=1)[0]
        write_pages(list_entries())
        state.stamp = stamp
        state.save()
    return True


def write_pages(entries: list[SearchEntry]) -> None:
    """Replace the pages that differ from the entries, in four queries for any number of them."""
    pages = {(entry.kind.name, entry.address, entry.title): page_of(entry) for entry in entries}
    old_pages = {(page.kind, page.address, page.title): page for page in SearchPage.objects.all()}
    same_keys = {
        key
        for key, page in pages.items()
        if key in old_pages and all(getattr(page, name) == getattr(old_pages[key], name) for name in COLUMNS)
    }
    SearchPage.objects.filter(pk__in=[page.pk for key, page in old_pages.items() if key not in same_keys]).delete()
    SearchPage.objects.bulk_create((page for key, page in pages.items() if key not in same_keys), batch_size=500)


def page_of(entry: SearchEntry) -> SearchPage:
    """The row of an entry."""
    names = [" ".join(split_words(name)) for name in (entry.title, *entry.names)]
    text = split_words(f"{entry.title} {' '.join(entry.names)} {entry.words} {entry.note}")
    return SearchPage(
        kind=entry.kind.name,
        title=entry.title,
        note=entry.note,
        address=entry.address,
        words=entry.words,
        names=list(entry.names),
        keys=f"|{'|'.join(names)}|",
        text=" ".join(dict.fromkeys(text)),
        grams=" ".join(sorted(set().union(*(list_grams(name) for name in names)))),
    )


def list_grams(words: str) -> set[str]:
    """Three characters in a row of some words, with a bar for each blank, and before and after."""
    text = f"_{words.replace(' ', '_')}_"
    return {text[place : place + 3] for place in range(len(text) - 2)}


def find_pages(words: list[str]) -> list[SearchEntry]:
    """The pages with every word, as a whole or as the beginning of one; those of that very name first. In one query."""
    if connection.vendor == "sqlite":
        terms = " AND ".join(f'"{word}"*' for word in words)
        condition, match = (
            "id IN (SELECT rowid FROM leaderboard_searchtext WHERE leaderboard_searchtext MATCH %s)",
            (f"text : ({terms})"),
        )
    else:
        condition = "array_to_tsvector(string_to_array(text, ' ')) @@ %s::tsquery"
        match = " & ".join(f"'{word}':*" for word in words)
    key = f"%|{' '.join(words)}|%"
    return read_pages(f"WHERE {condition} ORDER BY (keys LIKE %s) DESC, length(title), id", [match, key])


def find_similar(words: list[str], most: int) -> list[SearchEntry]:
    """The pages with the names most like the words, at most so many, each address once. In one query."""
    grams = list_grams(" ".join(words))
    if connection.vendor == "sqlite":
        terms = " OR ".join(f'"{gram}"' for gram in sorted(grams))
        source = (
            "JOIN leaderboard_searchtext ON leaderboard_searchtext.rowid = id WHERE leaderboard_searchtext MATCH %s "
            "ORDER BY leaderboard_searchtext.rank, id"
        )
        pages = read_pages(source, [f"grams : ({terms})"])
    else:
        vector = "array_to_tsvector(string_to_array(grams, ' '))"
        match = " | ".join(f"'{gram}'" for gram in sorted(grams))
        source = f"WHERE {vector} @@ %s::tsquery ORDER BY ts_rank({vector}, %s::tsquery) DESC, id"
        pages = read_pages(source, [match, match])
    scores = [(max(compare_grams(grams, name) for name in (page.title, *page.names)), page) for page in pages]
    scores.sort(key=lambda pair: (-pair[0], len(pair[1].title), pair[1].title))
    by_address: dict[str, SearchEntry] = {}
    for score, page in scores:
        if score >= CLOSE:
            by_address.setdefault(page.address, page)
    return list(by_address.values())[:most]


def compare_grams(grams: set[str], name: str) -> float:
    """The share of three-letter sequences that two names have in common, from 0 to 1."""
    others = list_grams(" ".join(split_words(name)))
    return len(grams & others) / len(grams | others)


def read_pages(source: str, parameters: list[str]) -> list[SearchEntry]:
    """The entries of the pages that a condition chooses, in its order."""
    columns = ", ".join(f"leaderboard_searchpage.{name}" for name in ("id", *COLUMNS))
    statement = f"SELECT {columns} FROM leaderboard_searchpage {source} LIMIT {MOST_CANDIDATES}"  # noqa: S608 (ours)
    return [
        SearchEntry(EntryKind[page.kind], page.title, page.note, page.address, page.words, tuple(page.names))
        for page in SearchPage.objects.raw(statement, parameters)
    ]
