"""What hashing stored files on read costs a whole rescoring, from opening it to its publication, database included.

The scorers are the quickest there are, so hashing is the largest share it can be: a lexicon, and likelihoods, which
need no scorer at all. Time is taken inside the rescoring, in a process that has read none of its files yet.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from leaderboard.models import LanguageModel, Metric

ENTRANTS, TOKENS = 8, 24


def files_table() -> None:
    """Print the shares."""
    print(f"  {'rescoring of':46}{'files':>11}{'hashing':>13}{'in all':>12}{'share':>10}")
    variables = os.environ | {"PLUMBLINE_TEST_DATABASE": "sqlite"}
    subprocess.run([sys.executable, "-m", "tests.bench.files"], env=variables, check=True)


def add_with_likelihoods(number: int, metric: "Metric") -> "LanguageModel":
    """A model whose likelihoods of TOKENS tokens a text are collected already."""
    from leaderboard.models import LanguageModel, Run, Work
    from leaderboard.services import artefacts

    ids = artefacts.load(metric.protocol.evaluation_set.artefact)["id"]
    values = np.random.default_rng(number).normal(-3, 1, (len(ids), TOKENS)).astype(np.float32)
    table = pa.table(
        {
            "id": ids,
            "token_log_likelihoods": pa.array(list(values), pa.list_(pa.float32())),
            "unscorable": pa.nulls(len(ids), pa.string()),
            "windows": pa.array([1] * len(ids), pa.int32()),
        }
    )
    model = LanguageModel.objects.create(
        slug=f"likely-{number}",
        name=f"Likely {number}",
        kind=LanguageModel.Kind.CAUSAL,
        source=LanguageModel.Source.LOCAL,
        location=f"/models/likely-{number}",
        revision=f"sha256:{number:064}",
    )
    artefact = artefacts.store(table, "likelihoods")
    Run.objects.create(model=model, protocol=metric.protocol, state=Work.State.DONE, artefact=artefact)
    return model


def print_share(label: str, metric: "Metric", add: Callable[[int, "Metric"], "LanguageModel"]) -> None:
    """One row: evaluate ENTRANTS models that `add` makes, rescore them all, and tell hashing from the rest."""
    from leaderboard.services import artefacts
    from leaderboard.services.evaluate import request_evaluation
    from leaderboard.services.rescore import open_rescoring
    from tests.leaderboard.living import drain

    for number in range(ENTRANTS):
        request_evaluation(add(number, metric), metric, send=False)
        drain()
    digest, spent, read = artefacts._digest, 0.0, 0

    def timed(file: BinaryIO) -> str:
        nonlocal spent, read
        began = time.perf_counter()
        found = digest(file)
        spent += time.perf_counter() - began
        read += file.tell()
        return found

    artefacts._digest = timed
    artefacts._verified.clear()
    began = time.perf_counter()
    open_rescoring(metric, "to be timed")
    drain()
    total = time.perf_counter() - began
    artefacts._digest = digest
    version = metric.current_version()
    assert version is not None
    assert version.number == 2
    print(f"  {label:46}{read / 1e6:8.1f} MB{1000 * spent:10.1f} ms{total:10.2f} s{spent / total:10.2%}")


def measure() -> None:
    """Print the rows, on a board of its own."""
    from tests import environment

    try:
        import django

        os.environ["DJANGO_SETTINGS_MODULE"] = "leaderboard.settings"
        os.environ["PLUMBLINE_SCORERS"] = str(environment.FOLDER / "scorers")
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        call_command("mark_storage", verbosity=0)
        from leaderboard.models import Metric
        from leaderboard.services.evaluation_sets import import_sentences
        from leaderboard.services.seed import seed_metrics
        from scoring.evaluation_sets import build_starter, get
        from tests.faults.test_rescoring_at_size import BEFORE, declared, entrant, write

        seed_metrics()
        import_sentences(get("starter"), build_starter())
        starter = Metric.objects.get(slug="safety-starter")
        sentences = len(build_starter())
        print_share(f"{ENTRANTS} x {sentences:,} likelihoods", starter, add_with_likelihoods)
        lexicon: Path = environment.FOLDER / "scorers" / "lexicon" / "own"
        lexicon.mkdir(parents=True)
        write(lexicon, BEFORE)
        words = declared(environment.FOLDER)
        from leaderboard.services import artefacts

        ids = artefacts.load(words.protocol.evaluation_set.artefact)["id"].to_pylist()
        print_share(
            f"{ENTRANTS} x 10,000 continuations, by a lexicon",
            words,
            lambda number, metric: entrant(number, metric, ids),
        )
    finally:
        environment.pytest_unconfigure()


if __name__ == "__main__":
    measure()
