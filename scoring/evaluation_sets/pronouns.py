"""Pairs of continuations after a pronoun, in the forms of WinoBias and Winogender.

A context ends in a pronoun, female or male, and one of two continuations follows, each about another person of the
context. Statistics of occupations say which continuation is stereotypically a woman's. Messages name file and line,
never the text.
"""

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets.labelled import EvaluationSetError

PRONOUNS = ("female", "male")
CONTINUATIONS = ("first", "second")
WINOBIAS_PARTS = ("dev", "test")
WINOGENDER_STATISTICS = {"bergsma": "bergsma_pct_female", "bls": "bls_pct_female"}
HALF = 50.0  # percent of women, above which an occupation counts as female
_PRONOUN_PAIRS = (("she", "he"), ("her", "his"))  # nominative and possessive
_TEMPLATE_PRONOUNS = {"$NOM_PRONOUN": ("she", "he"), "$POSS_PRONOUN": ("her", "his")}


@dataclass(frozen=True, slots=True)
class ContinuationPair:
    """A context without its pronoun, both pronouns by PRONOUNS, and two continuations by CONTINUATIONS.

    female_continuation: for each statistic that judges the pair, which continuation is stereotypically a woman's.
    """

    id: str
    context: str
    pronouns: Mapping[str, str]
    continuations: Mapping[str, str]
    female_continuation: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Sentence:
    context: str
    pronouns: tuple[str, str]
    continuation: str
    occupation: str


def read_winobias(folder: Path) -> list[ContinuationPair]:
    """Read type 1 of WinoBias from a folder with its pro-stereotyped sentences and both lists of occupations.

    Two sentences make a pair where they share context and pronoun, as Vig et al. 2020 (arXiv 2004.12265) select them:
    pairs with an object pronoun, with several pronouns, or of different contexts are left out. All or nothing: raises
    EvaluationSetError at the first line that is wrong, OSError when a file cannot be read.
    """
    occupations = {
        occupation.strip().lower(): gender
        for gender in PRONOUNS
        for occupation in _text(folder / f"{gender}_occupations.txt").splitlines()
        if occupation.strip()
    }
    pairs = []
    for part in WINOBIAS_PARTS:
        path = folder / f"pro_stereotyped_type1.txt.{part}"
        lines = _text(path).splitlines()
        if len(lines) % 2:
            raise EvaluationSetError(f"{path.name} has {len(lines)} lines: two make a pair, so give an even number")
        for number in range(0, len(lines), 2):
            rows = lines[number : number + 2]
            if any(row.count("[") != 2 for row in rows) or any("[him]" in row for row in rows):
                continue
            first, second = (
                _winobias_sentence(f"{path.name}, line {number + shift}", row, occupations)
                for shift, row in enumerate(rows, start=1)
            )
            if (first.context, first.pronouns) == (second.context, second.pronouns):
                by_gender = {
                    occupations[row.occupation]: name for name, row in zip(CONTINUATIONS, (first, second), strict=True)
                }
                if set(by_gender) != set(PRONOUNS):
                    raise EvaluationSetError(
                        f"{path.name}, line {number + 1}: both occupations are of one list; one of each is needed"
                    )
                pairs.append(_pair(f"{part}-{number // 2 + 1}", first, second, {part: by_gender["female"]}))
    return pairs


def _winobias_sentence(place: str, row: str, occupations: Mapping[str, str]) -> _Sentence:
    _, _, sentence = row.strip().partition(" ")
    named_occupations = [name for name in occupations if f"[the {name}]" in sentence.lower()]
    if len(named_occupations) != 1:
        raise EvaluationSetError(f"{place}: names {len(named_occupations)} occupations of the lists in brackets, not 1")
    for pronouns in _PRONOUN_PAIRS:
        parts = re.split("|".join(rf"\[{pronoun}\]" for pronoun in pronouns), sentence)
        if len(parts) == 2:
            context, continuation = parts[0].replace("[", "").replace("]", "").strip(), parts[1].strip()
            return _Sentence(context, pronouns, continuation, named_occupations[0])
    raise EvaluationSetError(f"{place}: has no pronoun in brackets; give one of she, he, her, his")


def read_winogender(folder: Path) -> list[ContinuationPair]:
    """Read the templates of Winogender that share a context, with statistics of their occupations, from a folder.

    The templates are those that Vig et al. 2020 select (templates_structurefilter.tsv). An occupation counts as female
    where more than half are women, by Bergsma's counts of texts or by the Bureau of Labor Statistics. All or nothing:
    raises EvaluationSetError at the first line that is wrong, OSError when a file cannot be read.
    """
    statistics_name, templates_name = "occupations-stats.tsv", "templates_structurefilter.tsv"
    percentages: dict[str, dict[str, float]] = {}
    for number, row in enumerate(_rows(folder / statistics_name), start=2):
        try:
            percentages[row["occupation"]] = {key: float(row[name]) for key, name in WINOGENDER_STATISTICS.items()}
        except (KeyError, TypeError, ValueError) as error:
            columns = ", ".join(["occupation", *WINOGENDER_STATISTICS.values()])
            raise EvaluationSetError(
                f"{statistics_name}, line {number}: needs {columns}, percentages as numbers"
            ) from error
    rows = _rows(folder / templates_name)
    if len(rows) % 2:
        raise EvaluationSetError(f"{templates_name} has {len(rows)} templates: two make a pair, so give an even number")
    pairs = []
    for number in range(0, len(rows), 2):
        place = f"{templates_name}, line {number + 2}"
        first, second = (_winogender_sentence(place, row) for row in rows[number : number + 2])
        if (first.context, first.pronouns) != (second.context, second.pronouns):
            raise EvaluationSetError(f"{place}: differs from the next line in what stands before the continuation")
        if first.occupation not in percentages:
            raise EvaluationSetError(f"{place}: its occupation is not in {statistics_name}; add its percentages")
        # The answer 0 means that the continuation is about the occupation, 1 that it is about the other participant.
        of_occupation, of_participant = ("first", "second") if rows[number]["answer"] == "0" else ("second", "first")
        pairs.append(
            _pair(
                f"{number // 2 + 1}",
                first,
                second,
                {
                    key: of_occupation if percent > HALF else of_participant
                    for key, percent in percentages[first.occupation].items()
                },
            )
        )
    return pairs


def _winogender_sentence(place: str, row: Mapping[str, str]) -> _Sentence:
    try:
        occupation, sentence = row["occupation(0)"], row["sentence"]
        full_text = sentence.replace("$OCCUPATION", occupation).replace("$PARTICIPANT", row["other-participant(1)"])
        answer = row["answer"]
    except (KeyError, AttributeError) as error:
        raise EvaluationSetError(
            f"{place}: needs the columns occupation(0), other-participant(1), answer and sentence"
        ) from error
    if answer not in ("0", "1"):
        raise EvaluationSetError(f"{place}: answer is neither 0 nor 1")
    for name, pronouns in _TEMPLATE_PRONOUNS.items():
        context, pronoun, continuation = full_text.partition(name)
        if pronoun:
            return _Sentence(context.strip(), pronouns, continuation.strip(), occupation)
    raise EvaluationSetError(f"{place}: the sentence has none of {', '.join(_TEMPLATE_PRONOUNS)}")


def _pair(id_: str, first: _Sentence, second: _Sentence, female_continuation: Mapping[str, str]) -> ContinuationPair:
    pronouns = dict(zip(PRONOUNS, first.pronouns, strict=True))
    continuations = dict(zip(CONTINUATIONS, (first.continuation, second.continuation), strict=True))
    return ContinuationPair(id_, first.context, pronouns, continuations, female_continuation)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvaluationSetError(f"{path.name} is not UTF-8 at byte {error.start}: save it as UTF-8") from error


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(path).splitlines(), delimiter="\t"))


def pronoun_pairs_table(pairs: Sequence[ContinuationPair]) -> pa.Table:
    """Rows of the `coreference` schema, four for each pair: either pronoun with either continuation."""
    rows = []
    for pair in pairs:
        for pronoun in PRONOUNS:
            for continuation in CONTINUATIONS:
                beginning = f"{pair.context} {pair.pronouns[pronoun]} "
                text = beginning + pair.continuations[continuation]
                rows.append(
                    {
                        "id": f"{pair.id}-{pronoun}-{continuation}",
                        "text": text,
                        "start": len(beginning),
                        "end": len(text),
                        "left_start": len(beginning),
                        "pair": pair.id,
                        "pronoun": pronoun,
                        "continuation": continuation,
                        "demographics": list(pair.female_continuation),
                        "female_by": [key for key, name in pair.female_continuation.items() if name == continuation],
                    }
                )
    return pa.Table.from_pylist(rows, schema=SCHEMAS["coreference"])


def pronoun_pair_counts(pairs: Sequence[ContinuationPair]) -> dict[str, int]:
    """How many texts there are for each statistic of occupations."""
    counts = Counter(key for pair in pairs for key in pair.female_continuation)
    return {key: len(PRONOUNS) * len(CONTINUATIONS) * count for key, count in sorted(counts.items())}
