"""The kinds of formula: each owns what sets its formulas apart, from the outputs they take to the words about them.

Whoever uses a formula calls its methods and reads its attributes; nothing outside `scoring.metrics` asks which kind it
is. Importing this loads no library that runs models.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scoring import control_sets
from scoring.artefacts import SCORE
from scoring.attributes import Attribute, Meaning
from scoring.control_sets import Candidates
from scoring.drift.measures import Reported, Safety
from scoring.fingerprints import fingerprint
from scoring.generation import PROTOCOLS
from scoring.metrics import instruments
from scoring.metrics.influences import DrawInfluences, Influences, TextInfluences
from scoring.metrics.instruments import Instrument
from scoring.metrics.lexicon_frequency import ANY
from scoring.metrics.measures import Measure, Measurement
from scoring.metrics.outputs import LIKELIHOOD
from scoring.metrics.safety import Texts, log_perplexities
from scoring.scorers import Scorer

Array = NDArray[np.float64]
Judge = Callable[[Sequence[str | None]], pa.Table]  # texts to rows of the `scores` schema, null where there is no text
Sentences = Callable[[], tuple[str, pa.Table] | None]  # labelled sentences at hand, and the name of their set

MOST_SENTENCES = 400  # about demographics are candidates for the control set of a scorer
MOST_PROMPTS = 2_000  # of those that a model continues are candidates, too
FEWEST_SENTENCES = 200  # in a control set of likelihoods, which are slow
SEED = 20231116  # of the choice of candidates: any fixed number
TOLERANCE = 1e-12  # of values that are recomputed from the same outputs
VALUE_TOLERANCE = 1e-9  # of those that are sums of many, which libraries may add in another order


@dataclass(frozen=True, slots=True)
class Collected:
    """The input of a formula, as artefacts hold it.

    texts: the evaluation set. outputs: what was collected for it, in its order. values: the value of each text, by the
    formula or by a scorer; None where none is computed yet. Scores of the prompts, one row each in their order, split
    them into toxic and non-toxic: `published_prompt_scores` come with the set, in the long form of `prompt_scores`;
    `prompt_scores` come from the scorer of the continuations; None where there are none. attributes: all that the
    scorer declares, in any order. model_kind: causal, masked or permutation.
    """

    texts: pa.Table
    outputs: pa.Table
    values: pa.Table | None = None
    published_prompt_scores: pa.Table | None = None
    prompt_scores: pa.Table | None = None
    attributes: Sequence[Attribute] = ()
    model_kind: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The texts that a page lists for one entry, and the words it uses.

    values: the values [n] that order the texts, NaN where a text has none or is not listed; missing: the number of
    listed texts without one. texts: a function from places to the texts, which pages show covered, with their headings
    and with further remarks. noun: as in "harmful sentence"; value: as in "Log-perplexity"; lacking: what a text
    without a value lacks; order: the order in words; lowest_first, highest_first and spread: the orders to choose from.
    """

    values: Array
    missing: int
    texts: Callable[[Sequence[int]], list[tuple[list[tuple[str, str]], list[str]]]]
    noun: str
    value: str
    lacking: str
    order: str
    lowest_first: str
    highest_first: str
    spread: str


@dataclass(frozen=True, kw_only=True)
class Formula(ABC):
    """A way to compute numbers from collected outputs.

    in_words: what is measured and how, a sentence or two each; limits: what the numbers do not tell; warning: advice of
    the authors of the measure or of its texts, shown on its pages. interval_method: how its 95% intervals are computed,
    as it stands under tables of papers. changes: for each version from 2 on, one line on
    what it computes differently from the previous one.

    A kind declares `methods`, the protocols whose outputs it takes, and `set_kind`, the kind of their evaluation set;
    `by_kind`, whether numbers of causal, masked and permutation models are different quantities, ranked apart unless
    requested together; `values_kind`, the artefact that holds a value of each text; `uncertainty_file`, the file of an
    entry that gives its joint uncertainty, and `uncertainty_needs_texts`; `collecting_share`, the percentage of the
    work that collecting takes; `recollects`, whether outputs are collected again after a drift, as the watch is over
    their computation; `labels`, whether a threshold gives texts labels; `borrows_figures`, whether published figures of
    another metric illustrate its numbers; `shows_distributions`, whether a model's page draws the values of harmful and
    benign texts.
    """

    name: str
    title: str
    version: int
    measures: dict[str, Measure]
    measure: Callable[[Collected], list[Measurement]]
    in_words: tuple[str, ...]
    interval_method: str
    limits: tuple[str, ...]
    changes: Mapping[int, str]
    by_demographic: bool = False  # whether its slices are demographics
    warning: str = ""

    methods: ClassVar[tuple[str, ...]]
    set_kind: ClassVar[str]
    by_kind: ClassVar[bool]
    values_kind: ClassVar[str]
    uncertainty_file: ClassVar[str]
    uncertainty_needs_texts: ClassVar[bool]
    collecting_share: ClassVar[int]
    recollects: ClassVar[bool]
    labels: ClassVar[bool]
    borrows_figures: ClassVar[bool]
    shows_distributions: ClassVar[bool]
    value_name: ClassVar[str]  # as in "the score of a text"
    mean_shift_note: ClassVar[str] = ""  # what a shift of a mean of values is, where that needs saying
    usual_scorer: ClassVar[str] = ""  # what metrics name in a scorer's place, where none judges
    judged_by: ClassVar[str] = ""  # who judges texts, in a word or two, where no scorer does
    without_scorer: ClassVar[str] = ""  # why there is none, and what is watched in its stead

    def __post_init__(self) -> None:
        unexplained_versions = [number for number in range(2, self.version + 1) if not self.changes.get(number)]
        if unexplained_versions or len(self.changes) > self.version - 1:
            raise ValueError(
                f"formula {self.name}: changes must say what each version from 2 to {self.version} changes"
            )
        early_measures = [measure.key for measure in self.measures.values() if measure.since > self.version]
        if early_measures:
            raise ValueError(f"formula {self.name}: measures {early_measures} are since a version after {self.version}")

    def describe_changes(self, version: int, last_version: int | None = None) -> str:
        """Describe the changes after `version`, up to `last_version` or to the present; "" where there are none."""
        last = self.version if last_version is None else min(last_version, self.version)
        return " ".join(self.changes[number] for number in range(version + 1, last + 1))

    def measures_as_of(self, version: int) -> frozenset[str]:
        """The keys of the measures that `version` defined as this code does."""
        return frozenset(key for key, measure in self.measures.items() if measure.since <= version <= self.version)

    @property
    def ranked(self) -> list[Measure]:
        """The measures of which one direction is better."""
        return [measure for measure in self.measures.values() if measure.direction]

    @property
    def threshold_words(self) -> str:
        """The threshold in words, from which a text has what a scorer looks for."""
        return ""

    def asked_scorer(self, _scorer: str) -> str:
        """The scorer that judges texts for a metric with `scorer`; "" where none does."""
        return ""

    def own_fingerprint(self, scorer: str, epoch: int) -> str:
        """The fingerprint of what computes the numbers, if known here; "" where a scorer has its own."""
        return fingerprint({"scorer": scorer, "formula_version": self.version, "epoch": epoch})

    def describe_watch(self, _scorer: str) -> str:
        """Say in words what control checks watch."""
        return "how likelihoods are computed, by two bundled models"

    def refuse_set(self, slug: str, set_kind: str, counts: Mapping[str, Any], rows: int) -> str:
        """Say why an evaluation set cannot be measured; "" where it can. counts: its rows by demographic."""
        needs = self.set_kind.replace("_", " ")
        return "" if set_kind == self.set_kind else f"{slug} is of {set_kind}: {self.name} needs {needs}"

    def judged_texts(self, _texts: pa.Table, _outputs: pa.Table) -> list[str | None]:
        """The texts for a scorer, one for each row of the outputs, None where a row has no text."""
        return []

    @abstractmethod
    def values(self, texts: pa.Table, outputs: pa.Table, model_kind: str, judge: Judge) -> pa.Table:
        """The value of each text, in rows of `values_kind`; `judge` has a scorer judge texts, if needed."""

    @abstractmethod
    def count_missing(self, values: pa.Table) -> int:
        """The number of rows of `values` without a value."""

    def value_differences(self, _collection: Collected) -> Iterator[str]:
        """Describe where stored values differ from what the outputs give; empty where a scorer made them."""
        yield from ()

    def list_texts(self, _values: pa.Table, _texts: pa.Table) -> Listing:
        """The listing of an entry's texts, from its values and the evaluation set.

        Raises ValueError where these do not fit together.
        """
        raise NotImplementedError(f"{self.name}: what a scorer judged is listed by its attributes")

    @abstractmethod
    def influences(
        self, texts: pa.Table | None, tables: Iterable[tuple[int, pa.Table]], count: int, measures: Collection[str]
    ) -> Influences:
        """How much each text or draw moves the values of `count` entries, for the measures where that is known.

        texts: the evaluation set, where `uncertainty_needs_texts`. tables: `uncertainty_file` of entries, by number.
        """

    @abstractmethod
    def instrument(
        self, load_scorer: Callable[[], Scorer], parameters: Mapping[str, Any], environment: Mapping[str, str]
    ) -> Instrument:
        """The instrument that scores control sets. parameters: of the protocol. Raises what loading the scorer does."""

    @abstractmethod
    def choose_items(self, texts: pa.Table, instrument: Instrument, sentences: Sentences) -> tuple[str, pa.Table]:
        """The texts of a control set, and the kind of artefact that holds them."""

    @abstractmethod
    def entry_measures(self, items: pa.Table, attributes: Sequence[Attribute]) -> Reported:
        """The measures to take on a control set as if it were an entry. attributes: those with values."""


class OfLikelihoods:
    """The common part of formulas of likelihoods: no scorer judges texts, and control checks watch bundled models."""

    by_kind = True
    collecting_share = 90
    recollects = True
    labels = False
    value_name = "log-perplexity"
    mean_shift_note = " (They are log-perplexities: that is half a percent of a perplexity.)"
    usual_scorer = LIKELIHOOD
    judged_by = "none: likelihoods"
    without_scorer = (
        "None: the numbers are likelihoods, which the model itself gives. What is watched in a scorer's stead is how "
        "likelihoods are computed, by two bundled models, so that a change of libraries or of the device shows."
    )

    def instrument(
        self, _load_scorer: Callable[[], Scorer], parameters: Mapping[str, Any], environment: Mapping[str, str]
    ) -> Instrument:
        """Two bundled models."""
        return instruments.likelihood_instrument(parameters, environment)


@dataclass(frozen=True, kw_only=True)
class LikelihoodFormula(OfLikelihoods, Formula):
    """Formulas of likelihoods of labelled sentences: are harmful ones less likely? Uncertainty is DeLong's."""

    methods = (LIKELIHOOD,)
    set_kind = "labelled_sentences"
    values_kind = "log_perplexities"
    uncertainty_file = "artefact"
    uncertainty_needs_texts = True
    borrows_figures = True
    shows_distributions = True

    def values(self, texts: pa.Table, outputs: pa.Table, model_kind: str, judge: Judge) -> pa.Table:
        values = pa.array(log_perplexities(outputs), from_pandas=True)
        return pa.table({"id": outputs["id"], "log_perplexity": values})

    def count_missing(self, values: pa.Table) -> int:
        return int(values["log_perplexity"].null_count)

    def value_differences(self, collection: Collected) -> Iterator[str]:
        values, likelihoods = collection.values, collection.outputs
        if values is None:
            return
        if values["id"].to_pylist() != likelihoods["id"].to_pylist():
            yield "log-perplexities: are of other texts than the likelihoods"
            return
        stored_values = np.array(values["log_perplexity"].to_pylist(), dtype=np.float64)
        recomputed_values = log_perplexities(likelihoods)
        differs = ~np.isclose(stored_values, recomputed_values, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        if differs.any():
            first, count = values["id"][int(differs.argmax())].as_py(), int(differs.sum())
            yield f"log-perplexities: {count} differ from what the likelihoods give, the first is that of {first}"

    def influences(
        self, texts: pa.Table | None, tables: Iterable[tuple[int, pa.Table]], count: int, measures: Collection[str]
    ) -> Influences:
        values = {number: table["log_perplexity"].to_numpy().astype(np.float64) for number, table in tables}
        return TextInfluences(Texts.from_table(texts), values, count, measures)

    def list_texts(self, values: pa.Table, texts: pa.Table) -> Listing:
        texts = align_texts(values, texts)
        harmful = texts["harmful"].to_numpy().astype(bool)
        log_perplexity = values["log_perplexity"].cast(pa.float64()).to_numpy().astype(np.float64)
        harmful_values = np.where(harmful, log_perplexity, np.nan)

        def describe(places: Sequence[int]) -> list[tuple[list[tuple[str, str]], list[str]]]:
            rows = texts.select(["text", "demographics"]).take(pa.array(places, pa.int64())).to_pylist()
            descriptions = (f"labelled harmful, about {', '.join(row['demographics'])}" for row in rows)
            return [([("", row["text"])], [words]) for row, words in zip(rows, descriptions, strict=True)]

        return Listing(
            values=harmful_values,
            missing=int(harmful.sum()) - int(np.isfinite(harmful_values).sum()),
            texts=describe,
            noun="harmful sentence",
            value="Log-perplexity",
            lacking="likelihood",
            order="by how likely they are to the model",
            lowest_first="Most likely first",
            highest_first="Least likely first",
            spread="Spread from least to most likely",
        )

    def choose_items(self, texts: pa.Table, instrument: Instrument, sentences: Sentences) -> tuple[str, pa.Table]:
        candidates = Candidates(
            texts["id"].to_pylist(),
            texts["text"].to_pylist(),
            texts["demographics"].to_pylist(),
            harmful=np.array(texts["harmful"].to_pylist(), dtype=bool),
        )
        chosen_ids = {item.id for item in control_sets.choose(candidates, FEWEST_SENTENCES)}
        return self.set_kind, texts.filter([id_ in chosen_ids for id_ in candidates.ids])

    def entry_measures(self, items: pa.Table, attributes: Sequence[Attribute]) -> Reported:
        return Safety(Texts.from_table(items), [attribute.name for attribute in attributes])


@dataclass(frozen=True, kw_only=True)
class ScoreFormula(Formula):
    """Formulas of a scorer's scores of sampled continuations. Uncertainty is a bootstrap over prompts.

    scorer_texts: the texts that the scorer gets. threshold: in words, when a text has what the scorer looks for.
    control_measures: the measures of a control check. group_rule: why every prompt must be about a demographic; ""
    where it need not.
    """

    scorer_texts: Callable[[pa.Table, pa.Table], list[str | None]]
    threshold: str
    control_measures: Callable[[Sequence[Attribute]], Reported]
    group_rule: str = ""

    methods = tuple(PROTOCOLS)
    set_kind = "prompts"
    by_kind = False
    values_kind = "scores"
    uncertainty_file = "replicates"
    uncertainty_needs_texts = False
    collecting_share = 50
    recollects = False
    labels = True
    borrows_figures = False
    shows_distributions = False
    value_name = "score"

    @property
    def threshold_words(self) -> str:
        return self.threshold

    def asked_scorer(self, scorer: str) -> str:
        return scorer

    def own_fingerprint(self, _scorer: str, _epoch: int) -> str:
        return ""

    def describe_watch(self, scorer: str) -> str:
        return f"the scorer {scorer}"

    def refuse_set(self, slug: str, set_kind: str, counts: Mapping[str, Any], rows: int) -> str:
        refusal = super().refuse_set(slug, set_kind, counts, rows)
        if not refusal and self.group_rule and sum(counts.values()) < rows:
            return f"{slug} has prompts without a group: {self.group_rule}"
        return refusal

    def judged_texts(self, texts: pa.Table, outputs: pa.Table) -> list[str | None]:
        return self.scorer_texts(texts, outputs)

    def values(self, texts: pa.Table, outputs: pa.Table, model_kind: str, judge: Judge) -> pa.Table:
        scores = judge(self.judged_texts(texts, outputs))
        return scores.append_column("id", outputs["prompt_id"]).append_column("index", outputs["index"])

    def count_missing(self, values: pa.Table) -> int:
        # Either every attribute of a text has a score, or none has.
        return int(values[next(name for name in values.column_names if name.startswith(SCORE))].null_count)

    def influences(
        self, texts: pa.Table | None, tables: Iterable[tuple[int, pa.Table]], count: int, measures: Collection[str]
    ) -> Influences:
        return DrawInfluences(tables, count, measures)

    def instrument(
        self, load_scorer: Callable[[], Scorer], parameters: Mapping[str, Any], environment: Mapping[str, str]
    ) -> Instrument:
        return instruments.scorer_instrument(load_scorer())

    def choose_items(self, texts: pa.Table, instrument: Instrument, sentences: Sentences) -> tuple[str, pa.Table]:
        """Choose prompts and sentences about demographics by fresh scores."""
        prompts = _draw_rows(texts, MOST_PROMPTS)
        ids, item_texts = prompts["id"].to_pylist(), prompts["text"].to_pylist()
        groups = [(group,) if group else () for group in prompts["group"].to_pylist()]
        labelled_set = sentences()
        if labelled_set:
            slug, table = labelled_set[0], _draw_rows(labelled_set[1], MOST_SENTENCES)
            ids += [f"{slug}:{id_}" for id_ in table["id"].to_pylist()]
            item_texts += table["text"].to_pylist()
            groups += [tuple(names) for names in table["demographics"].to_pylist()]
        scores = _harm(instrument, instrument.score(item_texts))
        items = control_sets.choose(Candidates(ids, item_texts, groups, scores=scores))
        return "control_items", control_sets.to_table(items)

    def entry_measures(self, items: pa.Table, attributes: Sequence[Attribute]) -> Reported:
        return self.control_measures(attributes)


def choose_groups(texts: pa.Table, ids: Sequence[str], rows: NDArray[np.intp], size: int) -> pa.Table:
    """The texts of so many groups for a control set, in their order, chosen by the first text of each group.

    ids [n] and rows [n, texts of a group]: of the groups. Texts have `demographics`.
    """
    first_texts = texts.take(pa.array(rows[:, 0]))
    candidates = Candidates(
        list(ids),
        first_texts["text"].to_pylist(),
        first_texts["demographics"].to_pylist(),
        harmful=np.ones(len(ids), dtype=bool),
    )
    chosen_ids = {item.id for item in control_sets.choose(candidates, size)}
    places = [place for place, id_ in enumerate(ids) if id_ in chosen_ids]
    return texts.take(pa.array(np.sort(rows[places].ravel())))


def describe_changed_values(
    noun: str, stored_ids: Sequence[str], ids: Sequence[str], stored_values: Array, recomputed_values: Array
) -> Iterator[str]:
    """Say where stored values [n] or [n, k] are not those recomputed from the same outputs, or are of other texts."""
    if list(stored_ids) != list(ids):
        yield f"{noun}: are not of the evaluation set's texts"
        return
    is_same = np.isclose(stored_values, recomputed_values, rtol=VALUE_TOLERANCE, atol=VALUE_TOLERANCE, equal_nan=True)
    differs = ~is_same.reshape(len(ids), -1).all(axis=1)
    if differs.any():
        yield f"{noun}: {int(differs.sum())} are not what the outputs give, as of {ids[int(differs.argmax())]}"


def align_texts(values: pa.Table, texts: pa.Table) -> pa.Table:
    """The evaluation set's row for each value. Raises ValueError where a value has none."""
    order = pc.index_in(values["id"], value_set=texts["id"].combine_chunks())
    if order.null_count:
        raise ValueError("The stored values are of other texts than the evaluation set's: they are not shown.")
    return texts.take(order)


def _draw_rows(table: pa.Table, most: int) -> pa.Table:
    """Draw at most so many rows at random, and keep their order."""
    return table.take(np.sort(np.random.default_rng(SEED).permutation(table.num_rows)[:most]))


def _harm(instrument: Instrument, values: NDArray[np.float32]) -> Array:
    """The scores [n] that stratify candidates: of any harm or of toxicity, else the worst of all harms."""
    names = instrument.attributes
    harms = {attribute.name for attribute in instrument.declared if attribute.meaning == Meaning.HARM}
    columns = [number for number, name in enumerate(names) if name in harms] or list(range(len(names)))
    main = [number for number in columns if names[number].lower() in (ANY, "toxicity")]
    return np.asarray(values[:, main or columns].max(axis=1), dtype=np.float64)
