"""Models as files: what lies in a folder, whether it is safe, and one hash for all of it."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

from gguf import GGUFReader
from huggingface_hub import ModelCard
from transformers import AutoConfig, PretrainedConfig

from scoring.artefacts import sha256
from scoring.language_models.refusals import ModelRefused

RELEVANT = (".json", ".txt", ".model", ".safetensors", ".jinja")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")


def read_config(folder: Path, name: str, files: list[str]) -> PretrainedConfig:
    """The configuration in `folder` of the model that people know as `name` and that consists of `files`.

    Raises ModelRefused unless the weights are safetensors, full precision, and the model needs no code of its own.
    """
    _refuse_unsafe(name, files, _read_json(folder / "config.json", name))
    if (folder / "tokenizer_config.json").is_file():
        _refuse_code(name, "tokenizer_config.json", _read_json(folder / "tokenizer_config.json", name))
    try:
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # a configuration is anyone's text, and reading it raises anything
        raise ModelRefused(
            f"config.json of {name} names no architecture that transformers knows ({briefly(error)}): correct it, or "
            "use a model whose architecture is part of transformers"
        ) from error
    return config


def briefly(error: Exception) -> str:
    """What an error says, in one line that leaves room for the remedy."""
    return shorten(str(error), 160, placeholder=" ...")


def _read_json(path: Path, name: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelRefused(f"{path.name} of {name} is not JSON ({error}): correct it") from error
    if not isinstance(value, dict):
        raise ModelRefused(f"{path.name} of {name} is not a JSON object: correct it")
    return value


def _refuse_code(name: str, file: str, content: dict[str, Any]) -> None:
    # Without its code a tokenizer would quietly be read as another one, which cuts texts differently.
    if "auto_map" in content:
        raise ModelRefused(
            f"{name} needs code of its own to run (auto_map in {file}), which is never run here: use a model whose "
            "architecture and tokenizer are part of transformers"
        )


def _refuse_unsafe(name: str, files: list[str], config: dict[str, Any]) -> None:
    _refuse_code(name, "config.json", config)
    if "quantization_config" in config:
        raise ModelRefused(
            f"{name} is quantised, and likelihoods are compared in float32 here: use the model it was made from"
        )
    # Only files at the top are loaded; those in folders are other models' (checkpoints, exports).
    if not any(file.endswith(".safetensors") and "/" not in file for file in files):
        pickled = sorted(file for file in files if file.endswith(PICKLED))
        found = f"only {', '.join(pickled[:3])}, and pickled weights can run code" if pickled else "no weights"
        if not pickled and any(file.endswith(".gguf") for file in files):
            found = "only GGUF files, whose weights are rounded"
        raise ModelRefused(f"{name} has {found}: convert it to safetensors and try again")


def read_gguf(path: Path) -> PretrainedConfig:
    """Configuration of a GGUF file. Raises ModelRefused when it cannot be read."""
    try:
        with alone(path) as folder:
            config: PretrainedConfig = AutoConfig.from_pretrained(folder, gguf_file=path.name, local_files_only=True)
    except Exception as error:  # a broken file makes its readers raise anything
        raise ModelRefused(
            f"{path} cannot be read as the GGUF of a known architecture ({error}): fetch it again, or use safetensors"
        ) from error
    return config


def licence_of_gguf(path: Path) -> str:
    """The licence that a readable GGUF file names, "" where it names none."""
    field = GGUFReader(path).get_field("general.license")
    return str(field.contents()) if field else ""


@contextmanager
def alone(path: Path) -> Iterator[Path]:
    """A folder that holds nothing but a link to `path`.

    A tokenizer.json or config.json beside a GGUF file would be read instead of what the pinned file says.
    """
    with TemporaryDirectory(prefix="plumbline-") as folder:
        (Path(folder) / path.name).symlink_to(path)
        yield Path(folder)


def licence_of_card(path: Path) -> str:
    """The licence that a README.md names in its front matter, "" where it names none."""
    if not path.is_file():
        return ""
    try:
        return str(ModelCard.load(path).data.to_dict().get("license") or "")
    except Exception:  # noqa: BLE001 - a card that cannot be read names no licence, and is no reason to refuse weights
        return ""


def folder_revision(folder: Path) -> str:
    """`sha256:` and a hash of the names and contents of the folder's relevant files."""
    files = sorted(path for path in folder.iterdir() if path.suffix in RELEVANT and path.is_file())
    lines = [f"{sha256(path)}  {path.name}" for path in files]
    return f"sha256:{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


def file_revision(path: Path) -> str:
    """`sha256:` and the hash of one file."""
    return f"sha256:{sha256(path)}"
