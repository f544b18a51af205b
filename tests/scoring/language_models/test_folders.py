"""Models in folders and GGUF files: what is accepted, pinned and refused."""

import json
import shutil
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.language_models import (
    HubUnavailable,
    ModelRefused,
    RevisionChanged,
    list_bundled,
    load,
    load_files,
    resolve,
)
from scoring.language_models.loading import read_tokenizer
from tests.scoring.language_models import tiny

NOBODY = "http://127.0.0.1:9"  # where no hub is


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def load_folder(folder):
    found = resolve(str(folder))
    return load(found.source, found.location, found.revision, device=torch.device("cpu"))


def test_a_folder_is_resolved_to_its_absolute_path_and_contents(gpt2, monkeypatch):
    monkeypatch.chdir(gpt2.parent)
    found = resolve("./gpt2")
    assert (found.source, found.location, found.licence) == ("folder", str(gpt2), "apache-2.0")
    assert found.revision.startswith("sha256:")
    assert len(found.revision) == len("sha256:") + 64


def test_an_existing_path_comes_before_a_hub_id(gpt2, monkeypatch):
    monkeypatch.chdir(gpt2.parent)
    assert resolve("gpt2", endpoint=NOBODY).source == "folder"


def test_equal_files_elsewhere_have_the_same_revision(gpt2, tmp_path):
    assert resolve(str(shutil.copytree(gpt2, tmp_path / "copy"))).revision == resolve(str(gpt2)).revision


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_changed_file_is_another_revision(gpt2, name):
    before = resolve(str(gpt2)).revision
    content = (gpt2 / name).read_bytes()
    (gpt2 / name).write_bytes(content.replace(b"}", b" }", 1) if name.endswith("json") else content[:-1] + b"\1")
    assert resolve(str(gpt2)).revision != before


def test_a_renamed_file_is_another_revision(gpt2):
    (gpt2 / "notes.txt").write_text("words")
    before = resolve(str(gpt2)).revision
    (gpt2 / "notes.txt").rename(gpt2 / "merges.txt")
    assert resolve(str(gpt2)).revision != before


def test_a_file_that_nothing_reads_changes_no_revision(gpt2):
    before = resolve(str(gpt2)).revision
    (gpt2 / "training.log").write_text("step 1")
    assert resolve(str(gpt2)).revision == before


@pytest.mark.parametrize("card", [None, "no front matter", "---\nlicense: [\n---\n", "---\nlanguage: en\n---\n"])
def test_a_card_that_names_no_licence_leaves_it_unknown(gpt2, card):
    (gpt2 / "README.md").unlink()
    if card is not None:
        (gpt2 / "README.md").write_text(card)
    assert resolve(str(gpt2)).licence == ""


@pytest.mark.parametrize("ref", ["./gone", "/gone", "~/gone", "gone.gguf", "a/b/c"])
def test_a_path_that_is_missing_is_refused_as_a_path(ref):
    with pytest.raises(ModelRefused, match="does not exist"):
        resolve(ref, endpoint=NOBODY)


@pytest.mark.parametrize("ref", ["", " ", "two words", "org/na me", "-org/name", "a--b", "naïve/name", "name.git"])
def test_what_is_neither_a_path_nor_a_hub_id_is_refused(ref):
    with pytest.raises(ModelRefused, match="neither a path that exists nor a hub id"):
        resolve(ref, endpoint=NOBODY)


@pytest.mark.slow
@settings(max_examples=200)
@given(ref=st.text(max_size=30) | st.text(alphabet="~/.a-\0", max_size=8) | st.just("~nobody/x") | st.just("a" * 5000))
def test_any_text_is_refused_or_sought_on_the_hub(ref):
    with pytest.raises((ModelRefused, HubUnavailable)):
        resolve(ref, endpoint=NOBODY)


def test_a_revision_of_a_folder_is_refused(gpt2):
    with pytest.raises(ModelRefused, match="pinned by their contents"):
        resolve(str(gpt2), revision="main")


def test_a_folder_without_configuration_is_refused(tmp_path):
    with pytest.raises(ModelRefused, match=r"no config.json and 0 .gguf files"):
        resolve(str(tmp_path))


def test_a_folder_of_pickled_weights_is_refused(gpt2):
    (gpt2 / "model.safetensors").rename(gpt2 / "pytorch_model.bin")
    with pytest.raises(ModelRefused, match=r"only pytorch_model.bin, and pickled weights can run code"):
        resolve(str(gpt2))


def test_a_folder_without_weights_is_refused(gpt2):
    (gpt2 / "model.safetensors").unlink()
    with pytest.raises(ModelRefused, match="no weights"):
        resolve(str(gpt2))


def test_a_folder_of_weights_under_another_name_is_refused(gpt2):
    (gpt2 / "model.safetensors").rename(gpt2 / "adapter.safetensors")
    with pytest.raises(ModelRefused, match=r"has neither model\.safetensors nor model\.safetensors\.index\.json"):
        resolve(str(gpt2))


def test_a_model_that_needs_code_of_its_own_is_refused(gpt2):
    change_config(gpt2, auto_map={"AutoModelForCausalLM": "modeling.Model"})
    with pytest.raises(ModelRefused, match="auto_map"):
        resolve(str(gpt2))


def test_a_tokenizer_that_needs_code_of_its_own_is_refused_and_the_code_not_run(gpt2):
    path = gpt2 / "tokenizer_config.json"
    auto_map = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **auto_map}))
    (gpt2 / "own.py").write_text(f"open({str(gpt2 / 'ran')!r}, 'w').close()\nclass Own: pass\n")
    with pytest.raises(ModelRefused, match=r"auto_map in tokenizer_config\.json"):
        resolve(str(gpt2))
    read_tokenizer(gpt2, "a scorer", {})
    assert not (gpt2 / "ran").exists()


def test_a_quantised_model_is_refused(gpt2):
    change_config(gpt2, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(ModelRefused, match="quantised"):
        resolve(str(gpt2))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_a_configuration_cannot_name_kernels_to_fetch(gpt2, key):
    change_config(gpt2, **{key: "somebody/kernels"})
    assert load_folder(gpt2).model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("text", ["{", "[]", "\ufeff{}", '{"model_type": "nope"}', '{"model_type": []}', "{}"])
def test_a_configuration_that_cannot_be_read_is_refused(gpt2, text):
    (gpt2 / "config.json").write_text(text)
    with pytest.raises(ModelRefused, match=r"config\.json"):
        resolve(str(gpt2))


def test_a_configuration_with_a_wrong_value_is_refused(gpt2):
    change_config(gpt2, n_embd="wide")
    with pytest.raises(ModelRefused, match="n_embd"):
        resolve(str(gpt2))


def test_a_loaded_model_is_float32_in_evaluation_mode(gpt2):
    loaded = load_folder(gpt2)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    assert not loaded.model.training
    assert loaded.architecture.context == tiny.CONTEXT
    assert loaded.device == torch.device("cpu")


def test_half_precision_weights_are_loaded_as_float32(tmp_path):
    folder = tiny.save("llama", tmp_path / "half", dtype="bfloat16")
    assert "BF16" in (folder / "model.safetensors").read_bytes()[:400].decode(errors="ignore")
    loaded = load_folder(folder)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}


def test_a_folder_changed_after_it_was_pinned_is_refused_with_both_revisions(gpt2, tmp_path):
    pinned = resolve(str(gpt2))
    tiny.save("gpt2", gpt2, seed=1)
    changed = resolve(str(gpt2))
    with pytest.raises(RevisionChanged, match=rf"{pinned.revision}.*{changed.revision}"):
        load("folder", pinned.location, pinned.revision)


def test_a_folder_that_is_gone_is_refused(gpt2):
    pinned = resolve(str(gpt2))
    shutil.rmtree(gpt2)
    with pytest.raises(ModelRefused, match="is gone"):
        load("folder", pinned.location, pinned.revision)


def test_weights_without_the_head_are_refused_rather_than_made_up(saved, tmp_path):
    folder = shutil.copytree(saved("bert"), tmp_path / "bert")
    tiny.transformers.BertModel(tiny.config("bert")).save_pretrained(folder)
    change_config(folder, architectures=["BertForMaskedLM"])
    with pytest.raises(ModelRefused, match=r"the weights lack \d+ parameters of BertForMaskedLM \(cls\.predictions"):
        load_folder(folder)


def test_weights_of_other_sizes_are_refused(gpt2):
    change_config(gpt2, n_positions=tiny.CONTEXT + 1)
    with pytest.raises(ModelRefused, match=r"transformer\.wpe\.weight"):
        load_folder(gpt2)


def test_damaged_weights_are_refused(gpt2):
    (gpt2 / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(ModelRefused, match="cannot be loaded"):
        load_folder(gpt2)


@pytest.mark.parametrize("text", [None, "{", "{}"])
def test_a_model_without_a_readable_tokenizer_is_refused(gpt2, text):
    (gpt2 / "tokenizer.json").unlink()
    if text is not None:
        (gpt2 / "tokenizer.json").write_text(text)
    with pytest.raises(ModelRefused, match="tokenizer"):
        load_folder(gpt2)


def test_loading_prints_nothing(gpt2, capfd):
    load_folder(gpt2)
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_not_gguf_is_refused(gpt2):
    with pytest.raises(ModelRefused, match=r"not a \.gguf file"):
        resolve(str(gpt2 / "model.safetensors"))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model" * 9, b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40)])
def test_a_broken_gguf_file_is_refused(tmp_path, content):
    (tmp_path / "broken.gguf").write_bytes(content)
    with pytest.raises(ModelRefused, match="cannot be read as the GGUF"):
        resolve(str(tmp_path / "broken.gguf"))


def test_a_folder_of_two_gguf_files_is_refused(tmp_path):
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ModelRefused, match=r"2 \.gguf files: name one"):
        resolve(str(tmp_path))


def test_bundled_models_are_whole_folders_in_order():
    folders = list_bundled()
    assert folders == sorted(folders)
    for folder in folders:
        assert {"model.safetensors", "config.json", "README.md"} <= {path.name for path in folder.iterdir()}


@pytest.mark.slow_cases
@pytest.mark.parametrize("model_type", ["bert", "gpt2", "roberta", "albert", "qwen2", "xlnet"])
def test_a_model_without_the_files_of_its_tokenizer_is_refused(tmp_path, model_type):
    """transformers makes an empty one, to which every word is the same unknown one."""
    folder = tiny.save(model_type, tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(ModelRefused, match="save the tokenizer beside the weights"):
        load_files(folder, "a model")
