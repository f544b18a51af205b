"""Models that a submitter could send to harm a worker: made of a bundled one, with one file that is not honest."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from scoring.language_models import BUNDLED

HONEST = BUNDLED / "plumb-gpt2-l2-h128"
REPEATED = 1000


def copy_model(folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> Path:
    """The bundled model in `folder`, with `change` made to its tokenizer."""
    shutil.copytree(HONEST, folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    change(tokenizer)
    path.write_text(json.dumps(tokenizer))
    return folder


def with_bomb(folder: Path) -> Path:
    """Four normalizers in a row that make a thousand of each "e": a text with one gets 10^12 characters."""
    replace = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * REPEATED}
    return copy_model(
        folder, lambda tokenizer: tokenizer.update(normalizer={"type": "Sequence", "normalizers": [replace] * 4})
    )


def with_panic(folder: Path) -> Path:
    """A pre-tokenizer that cuts texts into pieces of no length: the tokenizers library panics when it is used."""
    return copy_model(folder, lambda tokenizer: tokenizer.update(pre_tokenizer={"type": "FixedLength", "length": 0}))


def with_nothing_finite(folder: Path) -> Path:
    """Weights that are not numbers, so that no likelihood is one."""
    copy_model(folder)
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = next(name for name in weights if "wte" in name or "ln_f" in name)
    weights[name] = np.full_like(weights[name], np.nan)
    save_file(weights, path, metadata={"format": "pt"})
    return folder
