"""Parquet artefacts: their schemas, reading and writing. An artefact is immutable and named by its sha256."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_VERSION = 1
_VERSION_KEY = b"plumbline.schema_version"
_KIND_KEY = b"plumbline.kind"

SCHEMAS = {
    "labelled_sentences": pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("harmful", pa.bool_()),
            ("toxicity", pa.float64()),
            ("demographics", pa.list_(pa.string())),
        ]
    ),
    "labelled_texts": pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("harmful", pa.bool_()),
            ("groups", pa.list_(pa.string())),  # the demographics that it is about
            ("language", pa.string()),  # a code; empty where it is not known
            ("functionality", pa.string()),  # what a text of a test suite tests; else empty
            ("paraphrase_of", pa.string()),  # the id of the text that it says again; else empty
        ]
    ),
    "stereotype_pairs": pa.schema(  # two rows for each pair
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("pair", pa.string()),
            ("stereotyping", pa.bool_()),  # whether it is the more stereotyping sentence of its pair
            ("demographics", pa.list_(pa.string())),  # the bias type
        ]
    ),
    "stereotype_triples": pa.schema(  # three rows for each triple
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("start", pa.int32()),  # masked models are asked for the characters from here
            ("end", pa.int32()),  # to here
            ("left_start", pa.int32()),  # others for those from here to the text's end
            ("triple", pa.string()),
            ("association", pa.string()),  # stereotype, anti-stereotype or unrelated
            ("task", pa.string()),  # intrasentence or intersentence
            ("target", pa.string()),  # the term that the triple is about
            ("demographics", pa.list_(pa.string())),  # the domain
        ]
    ),
    "coreference": pa.schema(  # four rows for each pair: either pronoun with either continuation
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("start", pa.int32()),  # of the continuation, in characters
            ("end", pa.int32()),
            ("left_start", pa.int32()),  # the same as start
            ("pair", pa.string()),
            ("pronoun", pa.string()),  # female or male
            ("continuation", pa.string()),  # first or second
            ("demographics", pa.list_(pa.string())),  # the statistics of occupations that judge this pair
            ("female_by", pa.list_(pa.string())),  # those by which this continuation is stereotypically a woman's
        ]
    ),
    "likelihoods": pa.schema(
        [
            ("id", pa.string()),
            ("token_log_likelihoods", pa.list_(pa.float32())),  # natural logarithms, scored tokens only
            ("unscorable", pa.string()),  # why there are none; null where there are
            ("windows", pa.int32()),
        ]
    ),
    "token_likelihoods": pa.schema(
        [
            ("id", pa.string()),
            ("tokens", pa.list_(pa.int32())),  # ids in the model's vocabulary, without special tokens
            ("token_log_likelihoods", pa.list_(pa.float32())),  # of each of these tokens
            ("unscorable", pa.string()),  # why there are none; null where there are
            ("windows", pa.int32()),
        ]
    ),
    "pair_differences": pa.schema(
        [
            ("id", pa.string()),  # of the stereotyping sentence
            ("difference", pa.float64()),  # its log-likelihood above that of the other; null where one has none
        ]
    ),
    "triple_scores": pa.schema(  # log-scores of the three sentences; all null where one has none
        [
            ("id", pa.string()),  # of the triple
            ("stereotype", pa.float64()),
            ("anti_stereotype", pa.float64()),
            ("unrelated", pa.float64()),
        ]
    ),
    "pair_odds_ratios": pa.schema(
        [
            ("id", pa.string()),  # of the pair
            # Of the first continuation against the second, after the male pronoun against the female; null where a
            # continuation has no likelihood.
            ("log_odds_ratio", pa.float64()),
        ]
    ),
    "log_perplexities": pa.schema(
        [
            ("id", pa.string()),
            ("log_perplexity", pa.float64()),  # minus the mean token log-likelihood; null where unscorable
        ]
    ),
    "prompts": pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("group", pa.string()),  # demographic or domain; null where the set has none
        ]
    ),
    "prompt_scores": pa.schema(  # as published with the prompts, or with their published continuations
        [
            ("id", pa.string()),  # of the prompt
            ("attribute", pa.string()),
            ("score", pa.float64()),  # in 0..1; null where the source has none
        ]
    ),
    "published_continuations": pa.schema(
        [
            ("prompt_id", pa.string()),
            ("text", pa.string()),
        ]
    ),
    "continuations": pa.schema(
        [
            ("prompt_id", pa.string()),
            ("index", pa.int32()),  # from 0 to k - 1
            ("text", pa.string()),  # what was generated, without the prompt; null where nothing was
            ("n_tokens", pa.int32()),  # without the end of text; null where a server does not say
            ("finish", pa.string()),  # "stop" at the end of text, "length" at the most tokens; null where there is none
            ("error", pa.string()),  # why there is no text; null where there is
            ("truncated", pa.bool_()),  # whether the prompt lost its beginning to fit the model's context
            ("log_perplexity", pa.float64()),  # of prompt and text to the model; null where it was not asked for
        ]
    ),
    "answers": pa.schema(  # continuations of a chat
        [
            ("prompt_id", pa.string()),
            ("index", pa.int32()),  # from 0 to k - 1
            ("text", pa.string()),  # what remains of the answer by the protocol's rules; null where nothing was said
            ("n_tokens", pa.int32()),  # of the whole answer, without the end of text; null where a server does not say
            ("finish", pa.string()),  # "stop" at the end of text, "length" at the most tokens; null where there is none
            ("error", pa.string()),  # why there is no text; null where there is
            ("truncated", pa.bool_()),  # never: a prompt that does not fit is not cut
            ("log_perplexity", pa.float64()),  # not asked for
            (
                "raw",
                pa.string(),
            ),  # the whole answer, its reasoning within <think> and </think>; null where there is none
            ("reasoned", pa.bool_()),  # whether reasoning was left out
            ("echoed", pa.bool_()),  # whether the prompt was left out
            ("refused", pa.bool_()),  # whether the answer is a refusal
        ]
    ),
    "scores": pa.schema(  # and a float32 column for each attribute, its name after SCORE, null where there is none
        [
            ("id", pa.string()),  # of the prompt
            ("index", pa.int32()),  # of the continuation; null where the text is the prompt itself
            ("reason", pa.string()),  # why the text has no scores; null where it has
            ("truncated", pa.bool_()),  # whether only the beginning of the text was seen
        ]
    ),
    "control_reference": pa.schema(  # and score:*, the medians of replicates:*, lists of a float32 for each scoring
        [
            ("id", pa.string()),
        ]
    ),
    "control_items": pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("demographics", pa.list_(pa.string())),
        ]
    ),
    "replicates": pa.schema(
        [
            ("measure", pa.string()),
            ("slice", pa.string()),
            ("values", pa.list_(pa.float32())),  # in each resample, in an order that all models share
        ]
    ),
}
SCORE, REPLICATES = "score:", "replicates:"
ANSWERED_BY = "answered_by"  # what a server said of itself with a text, as JSON: only in outputs of servers
ROW_GROUP = 2**15  # rows: few enough that reading some rows of millions decodes few others


class ArtefactError(ValueError):
    """The file is not an artefact that this version can read."""


def write(table: pa.Table, kind: str, path: Path, metadata: Mapping[bytes, bytes] | None = None) -> None:
    """Write `table` as an artefact of `kind`: zstd Parquet whose bytes depend on the values alone.

    metadata: further entries of the file's metadata. Raises pyarrow.ArrowInvalid where columns do not fit the kind's
    schema.
    """
    columns = list(SCHEMAS[kind])
    if kind in ("scores", "control_reference"):
        columns += [pa.field(name, pa.float32()) for name in table.column_names if name.startswith(SCORE)]
        lists = [name for name in table.column_names if name.startswith(REPLICATES)]
        columns += [pa.field(name, pa.list_(pa.float32())) for name in lists]
    if ANSWERED_BY in table.column_names:
        columns.append(pa.field(ANSWERED_BY, pa.string()))
    schema = pa.schema(
        columns, {_KIND_KEY: kind.encode(), _VERSION_KEY: str(SCHEMA_VERSION).encode(), **(metadata or {})}
    )
    pq.write_table(
        table.select(schema.names).cast(schema),
        path,
        row_group_size=ROW_GROUP,
        compression="zstd",
        write_page_checksum=True,
    )


def read(source: Path | BinaryIO, kind: str) -> pa.Table:
    """Read the artefact in a file. Raises ArtefactError where it is of another kind, or newer than this code."""
    try:
        table = pq.read_table(source, page_checksum_verification=True)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the file system, not of the file's content
        raise ArtefactError(f"this is not a whole Parquet file: {error}") from error
    check(table.schema, kind)
    return table


def check(schema: pa.Schema, kind: str) -> None:
    """Raise ArtefactError where a file of `schema` is of another kind, or newer than this code."""
    metadata = schema.metadata or {}
    stored_kind = metadata.get(_KIND_KEY, b"").decode() or "nothing known"
    if stored_kind != kind:
        raise ArtefactError(f"the artefact holds {stored_kind}, not {kind}")
    version = int(metadata[_VERSION_KEY])
    if version > SCHEMA_VERSION:
        raise ArtefactError(
            f"the artefact has schema version {version}, this is {SCHEMA_VERSION}: upgrade Plumbline to read it"
        )


def sha256(path: Path) -> str:
    """The hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
