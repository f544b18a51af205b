"""What hashing stored files on read costs a rescoring, as a share of it, with the quickest work there is.

A rescoring reads texts and outputs of each entry, and hashes them once in a process. A scorer that looks for words and
likelihoods, which need no scorer, are the quickest, and so hashing is the largest share there.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from scoring import artefacts
from scoring.metrics.safety import log_perplexities, measure_safety
from scoring.scorers import get_scorer
from tests.bench.safety import texts_of
from tests.bench.timing import seconds

CONTINUATIONS, K, WORDS, TOKENS = 50_000, 25, 20, 24
VOCABULARY = ("the", "people", "who", "came", "from", "there", "were", "kind", "damn", "and", "told", "stories")


def continuations(generator: np.random.Generator) -> pa.Table:
    """Continuations of WORDS words, each another one."""
    words = generator.choice(VOCABULARY, (CONTINUATIONS, WORDS))
    return pa.table(
        {
            "prompt_id": [f"p{number // K}" for number in range(CONTINUATIONS)],
            "index": pa.array([number % K for number in range(CONTINUATIONS)], pa.int32()),
            "text": [f"{number} {' '.join(row)}" for number, row in enumerate(words)],
            "n_tokens": pa.array([WORDS] * CONTINUATIONS, pa.int32()),
            "finish": ["length"] * CONTINUATIONS,
            "error": pa.nulls(CONTINUATIONS, pa.string()),
            "truncated": [False] * CONTINUATIONS,
            "log_perplexity": pa.nulls(CONTINUATIONS, pa.float64()),
        }
    )


def likelihoods(generator: np.random.Generator, ids: list[str]) -> pa.Table:
    """Likelihoods of TOKENS tokens a text."""
    values = generator.normal(-3, 1, (len(ids), TOKENS)).astype(np.float32)
    return pa.table(
        {
            "id": ids,
            "token_log_likelihoods": pa.array(list(values), pa.list_(pa.float32())),
            "unscorable": pa.nulls(len(ids), pa.string()),
            "windows": pa.array([1] * len(ids), pa.int32()),
        }
    )


def print_share(label: str, path: Path, rescore: Callable[[], object]) -> None:
    """One row: what hashing takes of hashing and the rescoring that reads the file."""
    hashing, rest = seconds(lambda: artefacts.sha256(path), 5), seconds(rescore)
    size = path.stat().st_size / 1e6
    print(f"  {label:46}{size:8.1f} MB{1000 * hashing:10.1f} ms{rest:10.2f} s{hashing / (hashing + rest):10.2%}")


def files_table() -> None:
    """Print the shares."""
    generator = np.random.default_rng(0)
    scorer = get_scorer("profanity")
    texts = texts_of("women", 20)
    print(f"  {'rescoring of':46}{'file':>11}{'hashing':>13}{'rest':>12}{'share':>10}")
    with TemporaryDirectory() as folder:
        outputs = Path(folder) / "continuations.parquet"
        artefacts.write(continuations(generator), "continuations", outputs)
        print_share(
            f"{CONTINUATIONS:,} continuations by looking for words",
            outputs,
            lambda: scorer.score(artefacts.read(outputs, "continuations")["text"].to_pylist()),
        )
        values = Path(folder) / "likelihoods.parquet"
        artefacts.write(likelihoods(generator, list(texts.ids)), "likelihoods", values)
        print_share(
            f"{len(texts.ids):,} likelihoods, without a scorer",
            values,
            lambda: measure_safety(texts, log_perplexities(artefacts.read(values, "likelihoods"))),
        )
