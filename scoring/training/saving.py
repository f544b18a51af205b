"""What a recipe leaves in its output folder: settings, checkpoints while it runs, and models that are whole."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from scoring.refusals import Refused

CHECKPOINTS = "checkpoints"
SETTINGS = "settings.json"


def keep_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Write down what makes the models in `folder`. Raises Refused where other settings have begun there."""
    path = folder / SETTINGS
    folder.mkdir(parents=True, exist_ok=True)
    content = json.loads(json.dumps(settings, default=str))
    if path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        for field in sorted({*earlier, *content}):
            if earlier.get(field) != content.get(field):
                raise Refused.of_value(
                    field,
                    content.get(field),
                    f"{folder} was begun with {earlier.get(field)!r}; give that, or a new output",
                )
        return
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    draft.replace(path)


def hash_file(path: Path) -> str:
    """sha256 of a file, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, describe: Callable[[Path], None]
) -> None:
    """Write weights and tokenizer, let `describe` add the card, and only then give the folder its name."""
    draft = folder.with_name(f".{folder.name}.draft")
    if draft.exists():
        shutil.rmtree(draft)
    model.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    describe(draft)
    draft.rename(folder)
