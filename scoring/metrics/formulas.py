"""Formulas by name: from the tables that are kept to measurements. What a board recomputes its numbers with.

A formula reads what a language model made (likelihoods or continuations) and, of texts, what a scorer said; it never
runs either. So the same tables give the same numbers for ever.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scoring.artefacts import SCORE
from scoring.attributes import THRESHOLD, Attribute, Meaning, harms_of
from scoring.evaluation_sets.regard import template_of
from scoring.metrics import lexicon_frequency, regard, safety, toxicity
from scoring.metrics.lexicon_frequency import ANY
from scoring.metrics.measures import Measure, Measurement
from scoring.metrics.safety import ALL, AVERAGE

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Collected:
    """What a formula starts from, as artefacts hold it.

    texts: the evaluation set. outputs: likelihoods of its texts, or k continuations of each of its prompts, in its
    order. scores: a row for each continuation, in their order; None where the formula asks no scorer. Scores of the
    prompts, one row each in their order, split them into toxic and non-toxic: published with the set, in the long form
    of `prompt_scores`, and made by the scorer of the continuations; None where there are none. attributes: all that the
    scorer declares, in any order.
    """

    texts: pa.Table
    outputs: pa.Table
    scores: pa.Table | None = None
    published_prompt_scores: pa.Table | None = None
    prompt_scores: pa.Table | None = None
    attributes: Sequence[Attribute] = ()


@dataclass(frozen=True, slots=True)
class Formula:
    """How numbers are made. `asks_scorer`: whether of texts that a scorer has judged. `by_kind`: whether numbers of
    causal, masked and permutation models are different quantities, ranked apart unless asked for together. `in_words`:
    what is measured and how, a sentence or two each; `limits`: what the numbers do not tell. `changes`: for each
    version from 2 on, in one line, what it computes otherwise than the one before.

    `texts` gives the texts for the scorer, one for each row of the outputs, None where there is none.
    """

    name: str
    title: str
    version: int
    measures: dict[str, Measure]
    asks_scorer: bool
    by_kind: bool
    measure: Callable[[Collected], list[Measurement]]
    texts: Callable[[pa.Table, pa.Table], list[str | None]]
    in_words: tuple[str, ...]
    limits: tuple[str, ...]
    changes: Mapping[int, str]

    def __post_init__(self) -> None:
        missing = [number for number in range(2, self.version + 1) if not self.changes.get(number)]
        if missing or len(self.changes) > self.version - 1:
            raise ValueError(
                f"formula {self.name}: changes must say what each version from 2 to {self.version} changes"
            )
        ahead = [measure.key for measure in self.measures.values() if measure.since > self.version]
        if ahead:
            raise ValueError(f"formula {self.name}: measures {ahead} are since a version after {self.version}")

    def describe_changes(self, version: int, until: int | None = None) -> str:
        """What was changed after `version`, up to `until` or to now, in words; empty where nothing was."""
        last = self.version if until is None else min(until, self.version)
        return " ".join(self.changes[number] for number in range(version + 1, last + 1))

    def measures_as_of(self, version: int) -> frozenset[str]:
        """The keys of the measures that `version` defined as this code does."""
        return frozenset(key for key, measure in self.measures.items() if measure.since <= version <= self.version)

    @property
    def ranked(self) -> list[Measure]:
        """The measures of which one direction is better."""
        return [measure for measure in self.measures.values() if measure.direction]


def _safety(collected: Collected) -> list[Measurement]:
    texts = safety.Texts.from_table(collected.texts)
    return safety.measure_safety(texts, safety.log_perplexities(collected.outputs))


def _toxicity(collected: Collected) -> list[Measurement]:
    scores, attributes = _matrix(collected)
    harms = harms_of(attributes)
    harm = attributes[harms[0]] if harms and collected.prompt_scores else None
    return toxicity.measure_toxicity(
        scores,
        attributes,
        _identities(collected.outputs, scores.shape[1]),
        published_toxicity(collected.texts, collected.published_prompt_scores),
        _own_toxicity(collected.prompt_scores, harm),
        harm.threshold if harm else THRESHOLD,
    )


def _lexicon_frequency(collected: Collected) -> list[Measurement]:
    scores, categories = _matrix(collected)
    chosen = [number for number, category in enumerate(categories) if category.name != ANY]
    return lexicon_frequency.measure_lexicon_frequency(scores[:, :, chosen], [categories[n].name for n in chosen])


def _regard(collected: Collected) -> list[Measurement]:
    scores, labels = _matrix(collected)
    prompts, k, _ = scores.shape
    ids = collected.texts["id"].to_pylist()
    groups = collected.texts["group"].to_pylist()
    if None in groups:
        raise ValueError("regard is of prompts about demographics: this evaluation set has prompts without a group")
    statements = regard.Statements(
        ids=[f"{id_}-{index}" for id_ in ids for index in range(k)],
        demographics=[group for group in groups for _ in range(k)],
        templates=[template_of(id_, group) for id_, group in zip(ids, groups, strict=True) for _ in range(k)],
        toxicity=regard.toxicity_of_labels(scores.reshape(prompts * k, -1), labels),
    )
    likelihoods = collected.outputs["log_perplexity"].to_numpy(zero_copy_only=False).astype(np.float64)
    return regard.measure_regard(statements, None if np.isnan(likelihoods).all() else likelihoods)


def attributes_of(scores: pa.Table) -> list[str]:
    """The attributes of a table of scores, in the scorer's order."""
    return [name.removeprefix(SCORE) for name in scores.column_names if name.startswith(SCORE)]


def values_of(scores: pa.Table) -> NDArray[np.float32]:
    """The scores of a table, float32 [texts, attributes], NaN where a text has none."""
    columns = [scores[SCORE + name].to_numpy(zero_copy_only=False) for name in attributes_of(scores)]
    return np.stack(columns, axis=1).astype(np.float32)


def _matrix(collected: Collected) -> tuple[NDArray[np.float32], list[Attribute]]:
    """Scores as [prompts, k, attributes], and what the scorer declares of these. Raises ValueError."""
    if collected.scores is None:
        raise ValueError("scores: there are none, and this formula is of scores; score the continuations first")
    prompts, rows = collected.texts.num_rows, collected.scores.num_rows
    if not prompts or rows % prompts or rows != collected.outputs.num_rows:
        raise ValueError(f"scores: {rows} rows do not fit {collected.outputs.num_rows} outputs of {prompts} prompts")
    declared = {attribute.name: attribute for attribute in collected.attributes}
    names = attributes_of(collected.scores)
    undeclared = [name for name in names if name not in declared]
    if undeclared:
        raise ValueError(
            f"attributes: the scorer has scores of {undeclared[0]!r}, which it does not declare; declare each "
            "attribute a harm, neutral or good"
        )
    values = values_of(collected.scores)
    return values.reshape(prompts, rows // prompts, -1), [declared[name] for name in names]


def _identities(outputs: pa.Table, k: int) -> NDArray[np.int64]:
    """Numbers that are equal where continuations are the same text, [prompts, k]; those without text share one."""
    codes = outputs["text"].combine_chunks().dictionary_encode().indices.fill_null(-1)
    numbers: NDArray[np.int64] = codes.to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return numbers.reshape(-1, k)


def published_toxicity(texts: pa.Table, scores: pa.Table | None) -> Array | None:
    """The published toxicity of each prompt, float64 [prompts], NaN where unknown; None where none is published."""
    if scores is None:
        return None
    rows = zip(scores["id"].to_pylist(), scores["attribute"].to_pylist(), scores["score"].to_pylist(), strict=True)
    of = {id_: score for id_, attribute, score in rows if attribute == "toxicity" and score is not None}
    return np.array([of.get(id_, np.nan) for id_ in texts["id"].to_pylist()]) if of else None


def _own_toxicity(scores: pa.Table | None, harm: Attribute | None) -> Array | None:
    """How much of the scorer's first harm is in each prompt, float64 [prompts]; None where there is no such score."""
    if scores is None or harm is None:
        return None
    return values_of(scores)[:, attributes_of(scores).index(harm.name)].astype(np.float64)


def _no_texts(_texts: pa.Table, _outputs: pa.Table) -> list[str | None]:
    return []


def _continuations(_texts: pa.Table, outputs: pa.Table) -> list[str | None]:
    return list(outputs["text"].to_pylist())


def _statements(texts: pa.Table, outputs: pa.Table) -> list[str | None]:
    """Prompt and continuation: regard is towards the person whom the prompt names."""
    of = dict(zip(texts["id"].to_pylist(), texts["text"].to_pylist(), strict=True))
    rows = zip(outputs["prompt_id"].to_pylist(), outputs["text"].to_pylist(), strict=True)
    return [None if text is None else of[id_] + text for id_, text in rows]


FORMULAS = {
    formula.name: formula
    for formula in (
        Formula(
            "safety",
            "Safety",
            safety.FORMULA_VERSION,
            safety.MEASURES,
            False,
            True,
            _safety,
            _no_texts,
            safety.IN_WORDS,
            safety.LIMITS,
            safety.CHANGES,
        ),
        Formula(
            "toxicity",
            "Toxicity",
            toxicity.FORMULA_VERSION,
            toxicity.MEASURES,
            True,
            False,
            _toxicity,
            _continuations,
            toxicity.IN_WORDS,
            toxicity.LIMITS,
            toxicity.CHANGES,
        ),
        Formula(
            "lexicon_frequency",
            "Lexicons",
            lexicon_frequency.FORMULA_VERSION,
            lexicon_frequency.MEASURES,
            True,
            False,
            _lexicon_frequency,
            _continuations,
            lexicon_frequency.IN_WORDS,
            lexicon_frequency.LIMITS,
            lexicon_frequency.CHANGES,
        ),
        Formula(
            "regard",
            "Regard",
            regard.FORMULA_VERSION,
            regard.MEASURES,
            True,
            False,
            _regard,
            _statements,
            regard.IN_WORDS,
            regard.LIMITS,
            regard.CHANGES,
        ),
    )
}
MEASURES = {key: measure for formula in FORMULAS.values() for key, measure in formula.measures.items()}

_OVERALL = (AVERAGE, ALL, ANY)
_MAIN_ATTRIBUTES = ("toxicity", "profanity")
_PART_LABELS = {
    ALL: "all prompts",
    toxicity.TOXIC: "toxic prompts",
    toxicity.NONTOXIC: "non-toxic prompts",
    toxicity.TOXIC + toxicity.RESCORED: "toxic prompts, rescored",
    toxicity.NONTOXIC + toxicity.RESCORED: "non-toxic prompts, rescored",
}


def slice_parts(name: str) -> tuple[str, str]:
    """Attribute and part of a slice such as "toxicity:toxic"; the attribute is "" where the slice has none."""
    attribute, _, part = name.rpartition(":")
    return attribute, part


def slices_in_order(names: Iterable[str], declared: Sequence[Attribute] = ()) -> list[str]:
    """Slices as people read them: the overall ones first, attributes with their parts together, others by name.

    Of the `declared` attributes harms come first.
    """
    no_harms = {attribute.name for attribute in declared if attribute.meaning != Meaning.HARM}

    def place(name: str) -> tuple[bool, int, bool, bool, str, int, str]:
        attribute, part = slice_parts(name)
        overall = _OVERALL.index(name) if name in _OVERALL else len(_OVERALL)
        known = toxicity.PARTS.index(part) if part in toxicity.PARTS else len(toxicity.PARTS)
        other = attribute.lower() not in _MAIN_ATTRIBUTES
        return overall == len(_OVERALL), overall, attribute in no_harms, other, attribute, known, part

    return sorted(set(names), key=place)


def slice_label(name: str) -> str:
    """A slice as people call it, as in "Severe toxicity, all prompts"."""
    attribute, part = slice_parts(name)
    label = _PART_LABELS.get(part, part) if attribute or part in toxicity.PARTS[1:] else None
    if label is None:
        spaced = name.replace("_", " ")
        return "Any category" if name == ANY else safety.SLICE_LABELS.get(name, spaced[:1].upper() + spaced[1:])
    return f"{attribute.replace('_', ' ').capitalize()}, {label}" if attribute else label.capitalize()
