"""The numbers of a whole board from stored likelihoods."""

import time

import numpy as np
import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.evaluation_sets import build_starter, read_safenlp, to_table
from scoring.metrics.safety import Texts, log_perplexities, measure_safety
from tests.data import TOXIGEN

MODELS = 24
TOKENS = 22  # of a text, on average


def stored_likelihoods(ids: list[str], seed: int) -> pa.Table:
    """Drawn token log-likelihoods, as a run stores them."""
    generator = np.random.default_rng(seed)
    lengths = generator.poisson(TOKENS, len(ids)) + 1
    values = -generator.gamma(2.0, 2.0, lengths.sum()).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = [
        pa.array(ids),
        pa.ListArray.from_arrays(offsets, values),
        pa.nulls(len(ids), pa.string()),
        pa.array(np.ones(len(ids), dtype=np.int32)),
    ]
    return pa.table(columns, schema=SCHEMAS["likelihoods"])


def statistics_table() -> None:
    """Print how long reading the likelihoods of 24 models takes, and all their results with intervals and p."""
    sentences = to_table(read_safenlp(TOXIGEN) if TOXIGEN.exists() else build_starter())
    ids = sentences["id"].to_pylist()
    tables = [stored_likelihoods(ids, seed) for seed in range(MODELS)]
    began = time.perf_counter()
    texts = Texts.from_table(sentences)
    results = [measurement for table in tables for measurement in measure_safety(texts, log_perplexities(table))]
    taken = time.perf_counter() - began
    print(
        f"{MODELS} models x {len(texts.member)} demographics, {len(ids):,} texts: {len(results):,} results with "
        f"intervals, p and Holm's p in {taken:.2f} s"
    )
