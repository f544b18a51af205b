"""Evaluation sets: the catalogue of those known, bringing their files, reading and checking them, and a starter set."""

from scoring.evaluation_sets.catalogue import (
    CatalogueEntry,
    CatalogueFile,
    UnknownEvaluationSetError,
    get,
    load_catalogue,
    readable_sets,
)
from scoring.evaluation_sets.fetch import FetchError, fetch
from scoring.evaluation_sets.label_files import read_label_rows
from scoring.evaluation_sets.labelled import (
    EvaluationSetError,
    LabelledSentence,
    counts,
    from_table,
    irregularities,
    irregularities_in_words,
    read_safenlp,
    read_scored,
    to_table,
)
from scoring.evaluation_sets.labelled_texts import (
    LabelledText,
    LabelledTexts,
    UnreadableLabels,
    gather_texts,
    label_sentences,
    texts_from_table,
)
from scoring.evaluation_sets.own_texts import IDENTITY_MENTIONS, PARAPHRASES, build_identity_mentions, build_paraphrases
from scoring.evaluation_sets.prompts import (
    Prompt,
    prompt_scores_table,
    prompts_from_table,
    prompts_table,
    published_continuations_table,
    published_scores_table,
    read_prompts,
)
from scoring.evaluation_sets.reading import (
    SetReading,
    read_set,
    reading_of_prompts,
    reading_of_sentences,
    reading_of_texts,
)
from scoring.evaluation_sets.regard import build_regard
from scoring.evaluation_sets.starter import build_starter

__all__ = [
    "IDENTITY_MENTIONS",
    "PARAPHRASES",
    "CatalogueEntry",
    "CatalogueFile",
    "EvaluationSetError",
    "FetchError",
    "LabelledSentence",
    "LabelledText",
    "LabelledTexts",
    "Prompt",
    "SetReading",
    "UnknownEvaluationSetError",
    "UnreadableLabels",
    "build_identity_mentions",
    "build_paraphrases",
    "build_regard",
    "build_starter",
    "counts",
    "fetch",
    "from_table",
    "gather_texts",
    "get",
    "irregularities",
    "irregularities_in_words",
    "label_sentences",
    "load_catalogue",
    "prompt_scores_table",
    "prompts_from_table",
    "prompts_table",
    "published_continuations_table",
    "published_scores_table",
    "read_label_rows",
    "read_prompts",
    "read_safenlp",
    "read_scored",
    "read_set",
    "readable_sets",
    "reading_of_prompts",
    "reading_of_sentences",
    "reading_of_texts",
    "texts_from_table",
    "to_table",
]
