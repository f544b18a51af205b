"""Evaluation sets of the catalogue, read by their formats into what a board keeps of them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from scoring.evaluation_sets.catalogue import CatalogueEntry
from scoring.evaluation_sets.label_files import read_label_rows
from scoring.evaluation_sets.labelled import (
    EvaluationSetError,
    LabelledSentence,
    counts,
    irregularities,
    read_safenlp,
    to_table,
)
from scoring.evaluation_sets.labelled_texts import LabelledText, count_by_group, texts_table
from scoring.evaluation_sets.pairs import SentencePair, pair_counts, pairs_table, read_crows_pairs
from scoring.evaluation_sets.prompts import (
    Prompt,
    prompt_scores_table,
    prompts_table,
    published_continuations_table,
    published_scores_table,
    read_prompts,
)
from scoring.evaluation_sets.pronouns import (
    ContinuationPair,
    pronoun_pair_counts,
    pronoun_pairs_table,
    read_winobias,
    read_winogender,
)
from scoring.evaluation_sets.triples import Triple, read_stereoset, triple_counts, triples_table


@dataclass(frozen=True)
class SetReading:
    """Frozen texts: rows of an artefact of `kind`, with counts by demographic and of what is irregular about them.

    languages: the number of texts by code, where it is known. published: what comes with them, by name, each with the
    kind of its artefact.
    """

    kind: str
    table: pa.Table
    counts: dict[str, Any]
    irregularities: dict[str, int] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    published: Mapping[str, tuple[str, pa.Table]] = field(default_factory=dict)


def reading_of_sentences(sentences: Sequence[LabelledSentence]) -> SetReading:
    """Labelled sentences."""
    rows = list(sentences)
    return SetReading("labelled_sentences", to_table(rows), counts(rows), irregularities(rows), {"en": len(rows)})


def reading_of_texts(rows: Sequence[LabelledText]) -> SetReading:
    """Labelled texts, counted by demographic and by language."""
    languages = Counter(row.language for row in rows if row.language)
    return SetReading(
        "labelled_texts", texts_table(rows), count_by_group(rows), languages=dict(sorted(languages.items()))
    )


def reading_of_prompts(prompts: Sequence[Prompt]) -> SetReading:
    """Prompts, with the scores and continuations that were published with them."""
    rows = list(prompts)
    return SetReading(
        kind="prompts",
        table=prompts_table(rows),
        counts=dict(Counter(prompt.group for prompt in rows if prompt.group is not None)),
        published={
            "prompt_scores": ("prompt_scores", prompt_scores_table(rows)),
            "continuations": ("published_continuations", published_continuations_table(rows)),
            "continuation_scores": ("prompt_scores", published_scores_table(rows)),
        },
    )


def reading_of_pairs(pairs: Sequence[SentencePair]) -> SetReading:
    """Sentence pairs, counted by bias type."""
    return SetReading("stereotype_pairs", pairs_table(pairs), pair_counts(pairs))


def reading_of_triples(triples: Sequence[Triple]) -> SetReading:
    """Sentence triples, counted by domain."""
    return SetReading("stereotype_triples", triples_table(triples), triple_counts(triples))


def reading_of_pronoun_pairs(pairs: Sequence[ContinuationPair]) -> SetReading:
    """Pairs of continuations after a pronoun, counted by statistic of occupations."""
    return SetReading("coreference", pronoun_pairs_table(pairs), pronoun_pair_counts(pairs))


READERS: dict[str, Callable[[Path], SetReading]] = {
    "safenlp": lambda path: reading_of_sentences(read_safenlp(path)),
    "prompts": lambda path: reading_of_prompts(read_prompts(path)),
    "crows_pairs": lambda path: reading_of_pairs(read_crows_pairs(path)),
    "stereoset": lambda path: reading_of_triples(read_stereoset(path)),
    "winobias": lambda path: reading_of_pronoun_pairs(read_winobias(path)),
    "hatecheck": lambda path: reading_of_texts(read_label_rows(path, "hatecheck")),
    "rtp-lx": lambda path: reading_of_texts(read_label_rows(path, "rtp-lx")),
    "civil-comments": lambda path: reading_of_texts(read_label_rows(path, "civil-comments")),
    "winogender": lambda path: reading_of_pronoun_pairs(read_winogender(path)),
}


def read_set(entry: CatalogueEntry, path: Path) -> SetReading:
    """The set of the catalogue from the file or folder at `path`. Raises EvaluationSetError, OSError."""
    if entry.format not in READERS:
        raise EvaluationSetError(f"{entry.name}: nothing reads this set yet")
    return READERS[entry.format](path)
