"""What is loaded of a model: files by an allow-list of names, each within its limit, and nothing beside them.

A repository may hold anything. What is not on the list is not fetched and not seen: the libraries that load a model
are given a folder of their own, with links to the chosen files only.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from scoring.artefacts import sha256
from scoring.language_models.bounded_json import KB, MB, read_json, walk
from scoring.language_models.configuration import refuse_code
from scoring.language_models.refusals import ModelRefused
from scoring.language_models.tokenizer_rules import check_tokenizer_config, check_tokenizer_json
from scoring.language_models.weights import INDEX, MOST_INDEX_BYTES, WHOLE, Weights, read_weights

# The most bytes of each file that may be loaded, beside the weights. The longest known: tokenizer.json of Gemma 3 with
# 33 MB, tokenizer_config.json of the same with 1.2 MB.
LIMITS = {
    "config.json": 2 * MB,
    "generation_config.json": 256 * KB,
    "tokenizer_config.json": 8 * MB,
    "special_tokens_map.json": 2 * MB,
    "added_tokens.json": 8 * MB,
    "chat_template.jinja": MB,
    "chat_template.json": MB,
    "tokenizer.json": 96 * MB,
    "tekken.json": 32 * MB,
    "vocab.json": 32 * MB,
    "vocab.txt": 32 * MB,
    "merges.txt": 32 * MB,
    "bpe.codes": 32 * MB,
    "tokenizer.model": 32 * MB,
    "tiktoken.model": 32 * MB,
    "spiece.model": 32 * MB,
    "spm.model": 32 * MB,
    "sentencepiece.bpe.model": 32 * MB,
    "sentencepiece.model": 32 * MB,
    INDEX: MOST_INDEX_BYTES,
}
MOST_VALUES = 100_000  # of a JSON file that no other limit is named for
MOST_TOKENIZER_VALUES = 8_000_000  # vocabulary and merges of Gemma 3 are 2,300,000
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
CHECKED_ELSEWHERE = ("config.json", "tokenizer.json", INDEX)  # by a reader of their own
# Keys of tokenizer_config.json that name files of the machine on which it was written: they mean nothing here.
PLACES = ("name_or_path", "_commit_hash", "fast_tokenizer_files")


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file that was loaded: its name, its size in bytes and the sha256 of its contents in hex."""

    name: str
    size: int
    sha256: str


def refuse_unsafe(name: str, files: Collection[str]) -> None:
    """Raise ModelRefused where there are no weights as safetensors at the top, saying what is there instead."""
    if WHOLE in files or INDEX in files:
        return
    # Only files at the top are loaded; those in folders are other models' (checkpoints, exports).
    if any(file.endswith(".safetensors") and "/" not in file for file in files):
        raise ModelRefused(f"{name} has neither {WHOLE} nor {INDEX}: save it with save_pretrained, and try again")
    pickles = sorted(file for file in files if file.endswith(PICKLED))
    problem = f"only {', '.join(pickles[:3])}, and pickled weights can run code" if pickles else "no weights"
    if not pickles and any(file.endswith(".gguf") for file in files):
        problem = "only GGUF files, whose weights are rounded"
    raise ModelRefused(f"{name} has {problem}: convert it to safetensors and try again")


def choose_files(name: str, sizes: Mapping[str, int]) -> list[str]:
    """Of files with these sizes in bytes, those that are loaded beside the weights.

    Raises ModelRefused where one of them is longer than its limit.
    """
    names = [file for file in LIMITS if file in sizes and not (file == INDEX and WHOLE in sizes)]
    for file in names:
        if sizes[file] > LIMITS[file]:
            raise ModelRefused(
                f"{file} of {name} has {sizes[file]:,} bytes, and at most {LIMITS[file]:,} are read: shorten it"
            )
    return names


def list_files(folder: Path) -> dict[str, int]:
    """The regular files of a folder with their sizes in bytes; what lies in folders within is not looked at."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


@dataclass(frozen=True, slots=True)
class Package:
    """The files of a model that are loaded, and the numbers that its weights hold; all headers are checked."""

    folder: Path
    name: str
    files: tuple[str, ...]
    weights: Weights

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """A folder of links to the files, and nothing else, for as long as the block lasts."""
        with TemporaryDirectory(prefix="plumbline-") as folder:
            for file in self.files:
                (Path(folder) / file).symlink_to(self.folder.resolve() / file)
            _leave_places_out(Path(folder) / "tokenizer_config.json")
            yield Path(folder)


def describe_file(path: Path) -> LoadedFile:
    """Name, size and sha256 of a file."""
    return LoadedFile(path.name, path.stat().st_size, sha256(path))


def read_package(folder: Path, name: str) -> Package:
    """Check the files in `folder` of the model that people know as `name`. Raises ModelRefused."""
    sizes = list_files(folder)
    refuse_unsafe(name, sizes)
    files = choose_files(name, sizes)
    check_files(folder, name, files)
    weights = read_weights(folder, name, sizes)
    return Package(folder, name, (*files, *weights.files), weights)


def check_files(folder: Path, name: str, files: Collection[str]) -> None:
    """Check those of `files` that are JSON and no configuration of the model's own. Raises ModelRefused."""
    for file in files:
        if file.endswith(".json") and file not in CHECKED_ELSEWHERE:
            values = MOST_TOKENIZER_VALUES if file in ("vocab.json", "tekken.json") else MOST_VALUES
            content = read_json(folder / file, name, LIMITS[file], values)
            refuse_code(name, file, content)
            if file == "tokenizer_config.json":
                check_tokenizer_config(content, name)
            if values == MOST_VALUES:
                for _ in walk(content, file, name):
                    pass
    if "tokenizer.json" in files:
        content = read_json(folder / "tokenizer.json", name, LIMITS["tokenizer.json"], MOST_TOKENIZER_VALUES)
        check_tokenizer_json(content, name)


def _leave_places_out(path: Path) -> None:
    """Replace the link to a checked tokenizer_config.json by a copy without the names of files."""
    if not path.exists():
        return
    content = json.loads(path.read_bytes())
    content_without_places = {
        key: value for key, value in content.items() if not key.endswith("_file") and key not in PLACES
    }
    os.unlink(path)
    path.write_text(json.dumps(content_without_places), encoding="utf-8")
