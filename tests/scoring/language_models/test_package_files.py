"""Which files of a model are loaded: by name and size, in a folder of their own, and what is said where none can be."""

import json
import re

import pytest

from scoring.language_models import ModelRefused
from scoring.language_models.package import Package, choose_files, describe_file, list_files, refuse_unsafe
from scoring.language_models.weights import Weights

KB, MB = 2**10, 2**20
INDEX = "model.safetensors.index.json"
MOST = {
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
    INDEX: 16 * MB,
}


@pytest.mark.parametrize("file", MOST)
def test_a_file_is_loaded_up_to_the_size_that_an_honest_one_may_have(file):
    others = {"README.md": 10**9, "pytorch_model.bin": 1, "modeling_own.py": 1}
    assert choose_files("tuned", others | {file: MOST[file]}) == [file]
    words = f"{file} of tuned has {MOST[file] + 1:,} bytes, and at most {MOST[file]:,} are read: shorten it"
    with pytest.raises(ModelRefused, match=f"^{re.escape(words)}$"):
        choose_files("tuned", {file: MOST[file] + 1})


def test_an_index_beside_whole_weights_is_not_looked_at():
    sizes = {INDEX: 10**9, "model.safetensors": 1, "config.json": 1}
    assert choose_files("tuned", sizes) == ["config.json"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["model.safetensors"], ""),
        ([INDEX], ""),
        (
            ["adapter.safetensors"],
            f"tuned has neither model.safetensors nor {INDEX}: save it with save_pretrained, and",
        ),
        (["old/model.safetensors"], "tuned has no weights: convert it to safetensors and try again"),
        ([], "tuned has no weights: convert it to safetensors and try again"),
        (["a.gguf"], "tuned has only GGUF files, whose weights are rounded: convert it to safetensors"),
        (
            ["d.bin", "c.pt", "b.h5", "a.ckpt"],
            "tuned has only a.ckpt, b.h5, c.pt, and pickled weights can run code: con",
        ),
        (["a.bin", "b.gguf"], "tuned has only a.bin, and pickled weights can run code: convert it to safetensors"),
    ],
    ids=str,
)
def test_where_no_weights_can_be_loaded_it_is_said_what_lies_there_instead(files, words):
    if not words:
        refuse_unsafe("tuned", files)
        return
    with pytest.raises(ModelRefused, match=f"^{re.escape(words)}"):
        refuse_unsafe("tuned", files)


def test_a_model_is_loaded_from_a_folder_of_links_without_the_places_of_another_machine(tmp_path):
    (tmp_path / "inner").mkdir()
    for name in ("config.json", "README.md", "model.safetensors"):
        (tmp_path / name).write_text(name)
    settings = {
        "vocab_file": "/home/a",
        "name_or_path": "b",
        "_commit_hash": "c",
        "fast_tokenizer_files": [],
        "kept": "é",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert sorted(list_files(tmp_path)) == ["README.md", "config.json", "model.safetensors", "tokenizer_config.json"]
    files = ("config.json", "tokenizer_config.json", "model.safetensors")
    package = Package(tmp_path, "tuned", files, Weights((), {}))
    with package.staged() as folder:
        assert sorted(path.name for path in folder.iterdir()) == sorted(files)
        assert (folder / "config.json").resolve() == (tmp_path / "config.json").resolve()
        assert json.loads((folder / "tokenizer_config.json").read_text()) == {"kept": "é"}
    assert json.loads((tmp_path / "tokenizer_config.json").read_text()) == settings
    assert not folder.exists()
    with Package(tmp_path, "tuned", ("config.json",), Weights((), {})).staged() as folder:
        assert [path.name for path in folder.iterdir()] == ["config.json"]
    file = describe_file(tmp_path / "config.json")
    assert (file.name, file.size) == ("config.json", 11)
