"""Finds texts that are nearly the same by the cosine of TF-IDF of character trigrams, as StringGrouper does.

No matrix of all pairs is made: a block of texts at a time meets all others, by its rare trigrams alone. That loses no
pair. A text's weights are a vector of length 1; leave out its most common trigrams while the length of what is left out
stays below the cosine that is asked for, and every text that comes so near must share one of the others.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.feature_extraction.text import TfidfVectorizer

BLOCK_ENTRIES = 4_000_000  # of the product of a block with all texts
ROUNDING = 1e-6
_BLANK = re.compile(r"[\s,\-./]+")


def drop_near_duplicates(texts: Sequence[str], similarity: float, block_entries: int = BLOCK_ENTRIES) -> list[int]:
    """Positions of the texts to keep, ascending: the first of each group.

    A group is the texts that are linked by pairs whose cosine is at least `similarity`, in 0..1.
    """
    if not any(_trigrams(text) for text in texts):
        return list(range(len(texts)))
    weights = csr_array(TfidfVectorizer(analyzer=_trigrams).fit_transform(texts))
    firsts, seconds = _similar_pairs(weights, similarity, max(1, block_entries // len(texts)))
    links = coo_array((np.ones(len(firsts), dtype=bool), (firsts, seconds)), shape=(len(texts), len(texts)))
    _, groups = connected_components(links, directed=False)
    positions: list[int] = np.sort(np.unique(groups, return_index=True)[1]).tolist()
    return positions


def _trigrams(text: str) -> list[str]:
    letters = _BLANK.sub("", text.casefold())
    return [letters[start : start + 3] for start in range(len(letters) - 2)]


def _similar_pairs(
    weights: csr_array, similarity: float, block_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of rows, the first below the second, whose dot product is at least `similarity`."""
    by_rarity = np.argsort(np.bincount(weights.indices, minlength=weights.shape[1]), kind="stable")
    weights = csr_array(weights[:, by_rarity])
    weights.sort_indices()
    rare, rest = _leave_out_common(weights, similarity)
    columns = csr_array(weights.T)
    pairs: list[NDArray[np.int64]] = []
    for start in range(0, weights.shape[0], block_rows):
        overlap = (rare[start : start + block_rows] @ columns).tocoo()
        firsts, seconds = overlap.coords[0] + start, overlap.coords[1]
        is_close = (firsts < seconds) & (overlap.data + rest[firsts] >= similarity - ROUNDING)
        firsts, seconds = firsts[is_close], seconds[is_close]
        for part in range(0, len(firsts), block_rows):
            rows = np.stack([firsts, seconds])[:, part : part + block_rows]
            cosines = weights[rows[0]].multiply(weights[rows[1]]).sum(axis=1)
            pairs.append(rows[:, cosines >= similarity - ROUNDING])
    all_pairs = np.concatenate([np.empty((2, 0), dtype=np.int64), *pairs], axis=1)
    return all_pairs[0], all_pairs[1]


def _leave_out_common(weights: csr_array, similarity: float) -> tuple[csr_array, NDArray[np.float64]]:
    """The rows without their last columns, as many as have a length below `similarity`; and that length [rows]."""
    squares = np.concatenate([[0.0], np.cumsum(weights.data**2)])
    ends = np.repeat(squares[weights.indptr[1:]], np.diff(weights.indptr))
    tails = ends - squares[:-1]  # of each entry with all after it
    is_rare = tails >= (similarity - 2 * ROUNDING) ** 2
    rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    rare = csr_array((weights.data[is_rare], (rows[is_rare], weights.indices[is_rare])), shape=weights.shape)
    rest = np.bincount(rows[~is_rare], weights=weights.data[~is_rare] ** 2, minlength=weights.shape[0])
    return rare, np.sqrt(rest)
