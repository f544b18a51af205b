"""Finding a page by words: exact names first, then beginnings, then words; and names like it where there is none."""

from dataclasses import dataclass
from itertools import groupby

from leaderboard.queries.search_entries import EntryKind, SearchEntry, split_words
from leaderboard.queries.search_index import find_pages, find_similar, refresh_index

MOST_RESULTS = 25  # of a kind
MOST_SUGGESTIONS = 3
EXACT, BEGINNING = 1000, 100  # more than all words together count


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The entries that a query finds, by kind, the best first; and titles like it, where there are none.

    direct: the entry whose title is exactly what was asked for, where it is the only one.
    """

    groups: list[tuple[EntryKind, list[SearchEntry]]]
    suggestions: list[SearchEntry]
    direct: SearchEntry | None

    @property
    def count(self) -> int:
        """How many are shown."""
        return sum(len(entries) for _, entries in self.groups)


def search(query: str) -> SearchResults:
    """What `query` finds: entries with every one of its words, as wholes or as beginnings."""
    words = split_words(query)
    if not words:
        return SearchResults([], [], None)
    refresh_index()
    pairs = [(score_entry(entry, words), entry) for entry in find_pages(words)]
    pairs.sort(key=lambda pair: (-pair[0], len(pair[1].title), pair[1].title))
    order = list(EntryKind)
    by_kind = sorted(pairs, key=lambda pair: order.index(pair[1].kind))
    groups = [
        (kind, [entry for _, entry in group][:MOST_RESULTS])
        for kind, group in groupby(by_kind, lambda pair: pair[1].kind)
    ]
    # The kind of the best result comes first: who types the name of a model wants that model.
    best = {kind: max(score for score, entry in pairs if entry.kind is kind) for kind, _ in groups}
    groups.sort(key=lambda pair: (-best[pair[0]], order.index(pair[0])))
    exact = [entry for _, entry in pairs if is_called(entry, words)]
    suggestions = [] if pairs else find_similar(words, MOST_SUGGESTIONS)
    return SearchResults(groups, suggestions, exact[0] if len(exact) == 1 else None)


def suggest_pages(text: str) -> list[SearchEntry]:
    """The pages whose names are most like some words, such as those of an address that leads nowhere."""
    words = split_words(text)
    if not words:
        return []
    refresh_index()
    return find_similar(words, MOST_SUGGESTIONS)


def is_called(entry: SearchEntry, words: list[str]) -> bool:
    """Whether the words are the title of an entry, or another of its names."""
    return any(split_words(name) == words for name in (entry.title, *entry.names))


def score_entry(entry: SearchEntry, words: list[str]) -> int:
    """How well an entry with all words answers: by its name, the beginning of it, words of its title, or others."""
    names = [" ".join(split_words(name)) for name in (entry.title, *entry.names)]
    query, title = " ".join(words), names[0].split()
    if query in names:
        return EXACT
    others = split_words(f"{entry.note} {entry.words} {' '.join(entry.names)}")
    score = BEGINNING * any(name.startswith(query) for name in names)
    for word in words:
        if word in title:
            score += 10
        elif any(other.startswith(word) for other in title):
            score += 6
        else:
            score += 3 if word in others else 1
    return score
