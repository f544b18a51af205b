"""Detoxify and other classifiers of transformers, against the real classes run the plain way."""

import json
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import detoxify.detoxify
import numpy as np
import pytest
import torch
from detoxify import Detoxify
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PretrainedConfig

from scoring.attributes import Attribute, Meaning
from scoring.scorers import ScorerUnavailable, UndeclaredLabel, get_scorer
from scoring.scorers.conversion import convert_classifier, convert_detoxify
from scoring.scorers.detoxify import CLASSES as CLASSES_FILE
from scoring.scorers.encoder import LIBRARIES, NO_TOKENS, Activation, EncoderScorer
from scoring.scorers.labels import known_meanings
from scoring.scorers.precision import Int8Linear, Precision
from tests.declared import harms
from tests.scoring.language_models import tiny
from tests.standin_hub import StandInHub
from tests.tiny_classifiers import CLASSES, CONTEXT, bert, save_classifier, save_detoxify

CPU = torch.device("cpu")
TEXTS = [
    "you are all the same",
    "",
    "the",
    " ",
    "[SEP] the [PAD]",
    "éÀ 😀 \u4f60\u597d",
    "a" * 40,
    *("the and you are all " * number for number in range(1, 12)),
    *(f"text number {number} of some, and of others" for number in range(20)),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A Detoxify checkpoint with more outputs than classes, as the unbiased ones have, and its configuration."""
    return save_detoxify(tmp_path_factory.mktemp("detoxify"), bert(outputs=16))


def detoxify_scorer(checkpoint: tuple[Path, Path], **options: Any) -> EncoderScorer:
    with TemporaryDirectory() as folder:
        unbiased = get_scorer("detoxify-unbiased", folder=convert(*checkpoint, Path(folder)), device=CPU, **options)
    assert isinstance(unbiased, EncoderScorer)
    return unbiased


def convert(checkpoint: Path, config_folder: Path, folder: Path) -> Path:
    """What `convert-scorer` makes of a folder with both."""
    source = Path(shutil.copytree(config_folder, folder / "source"))
    shutil.copy(checkpoint, source / (checkpoint.name if checkpoint.suffix == ".ckpt" else "other.ckpt"))
    return convert_detoxify(source, folder / "converted")


def classifier(folder: Path, **options: Any) -> EncoderScorer:
    labels = [*PretrainedConfig.from_pretrained(folder).id2label.values()] if (folder / "config.json").exists() else []
    meanings = dict.fromkeys((label for label in labels if label not in known_meanings(labels)), Meaning.HARM)
    found = get_scorer(f"classifier:{folder}", device=CPU, meanings=meanings, **options)
    assert isinstance(found, EncoderScorer)
    return found


def predicted(checkpoint: tuple[Path, Path], texts: list[str]) -> np.ndarray:
    """Detoxify.predict on all of them at once, [n_texts, n_classes]."""
    found = Detoxify(checkpoint=str(checkpoint[0]), huggingface_config_path=str(checkpoint[1])).predict(texts)
    assert list(found) == CLASSES
    return np.array([found[name] for name in CLASSES]).T


@torch.no_grad()
def one_by_one(folder: Path, texts: list[str], activation: Callable[[torch.Tensor], torch.Tensor]) -> np.ndarray:
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [model(**tokenizer(text, truncation=True, max_length=CONTEXT, return_tensors="pt")).logits for text in texts]
    return activation(torch.cat(rows)).numpy()


def softmax(logits: torch.Tensor) -> torch.Tensor:
    return logits.softmax(-1)


def test_detoxify_gives_the_scores_of_its_own_predict(checkpoint):
    scorer = detoxify_scorer(checkpoint)
    found = scorer.score(TEXTS)
    assert scorer.attributes == tuple(harms(CLASSES))
    assert found.values.dtype == np.float32
    assert found.values.std(axis=0).min() > 0.005  # the comparison means something
    np.testing.assert_allclose(found.values, predicted(checkpoint, TEXTS), atol=1e-5, rtol=0)
    assert found.reasons == (None,) * len(TEXTS)


@pytest.mark.parametrize(
    ("change", "activation"),
    [
        ({"outputs": 3}, softmax),
        ({"outputs": 2, "problem_type": "single_label_classification"}, softmax),
        ({"outputs": 3, "problem_type": "multi_label_classification"}, torch.sigmoid),
        ({"outputs": 1}, torch.sigmoid),
    ],
)
def test_a_classifier_gives_the_scores_of_its_model_run_on_one_text_at_a_time(tmp_path, change, activation):
    folder = save_classifier(tmp_path, **change)
    scorer = classifier(folder)
    found = scorer.score(TEXTS)
    assert scorer.attribute_names == tuple(f"LABEL_{number}" for number in range(change["outputs"]))
    np.testing.assert_allclose(found.values, one_by_one(folder, TEXTS, activation), atol=1e-5, rtol=0)
    assert found.values.std(axis=0).min() > 0.005


@pytest.mark.slow_cases
@pytest.mark.parametrize("model_type", ["roberta", "distilbert", "albert", "electra", "xlnet", "gpt2"])
def test_other_architectures_too(tmp_path, model_type):
    torch.manual_seed(0)
    config = tiny.config(model_type, architectures=None, num_labels=3, initializer_range=0.2)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    texts = [text[:20] for text in TEXTS if text.strip()]
    found = classifier(tmp_path).score(texts)
    np.testing.assert_allclose(found.values, one_by_one(tmp_path, texts, softmax), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("model_type", "batches"), [("bert", 1), ("xlnet", 3)])
def test_texts_share_batches_unless_padding_would_change_their_scores(tmp_path, model_type, batches):
    config = tiny.config(model_type, architectures=None, num_labels=3, initializer_range=0.2)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)  # pads on the right, where XLNet looks for the last token
    seen: list[int] = []
    classifier(tmp_path).score(["a", "a b", "a b c"], seen.append)
    assert len(seen) == batches


@pytest.mark.slow
def test_a_tokenizer_that_cannot_pad_is_run_on_one_text_at_a_time(tmp_path):
    folder = save_classifier(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    found = classifier(folder).score(TEXTS)
    np.testing.assert_allclose(found.values, one_by_one(folder, TEXTS, softmax), atol=1e-5, rtol=0)


def test_a_text_without_tokens_has_a_reason_and_no_score(tmp_path):
    folder = save_classifier(tmp_path)
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps({**content, "post_processor": None}), encoding="utf-8")
    found = classifier(folder).score(["the", "", "all"])
    assert found.reasons == (None, NO_TOKENS, None)
    np.testing.assert_array_equal(np.isnan(found.values).all(axis=1), [False, True, False])


def test_attributes_are_the_labels_of_the_model_in_their_order(tmp_path):
    folder = save_classifier(tmp_path, id2label={0: "negative", 1: "neutral", 2: "positive", 3: "other"})
    assert classifier(folder).attributes == (
        Attribute("negative", Meaning.HARM),
        Attribute("neutral", Meaning.NEUTRAL),
        Attribute("positive", Meaning.GOOD),
        Attribute("other", Meaning.NEUTRAL),
    )


def test_texts_beyond_the_models_length_are_cut_at_their_end_and_counted(checkpoint):
    fits, longer = "a" * (CONTEXT - 2), "a " * (CONTEXT - 1)
    scorer = detoxify_scorer(checkpoint)
    assert len(scorer._tokenizer(longer)["input_ids"]) == CONTEXT + 1
    fits = "a " * (CONTEXT - 2)
    found = scorer.score([longer, fits, "a", longer, longer + "b"])
    assert found.truncated.tolist() == [True, False, False, True, True]
    assert found.truncated_count == 3
    assert found.truncated.dtype == bool
    np.testing.assert_array_equal(found.values[0], found.values[3])
    np.testing.assert_allclose(found.values[0], found.values[1], atol=1e-6)


def test_a_tokenizer_that_names_no_length_is_cut_at_the_models(tmp_path):
    checkpoint = save_detoxify(tmp_path, bert(outputs=7))
    settings_file = checkpoint[1] / "tokenizer_config.json"
    content = json.loads(settings_file.read_text(encoding="utf-8"))
    del content["model_max_length"]
    settings_file.write_text(json.dumps(content), encoding="utf-8")
    found = detoxify_scorer(checkpoint).score(["the " * 200, "the"])
    assert found.truncated.tolist() == [True, False]


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12), budget=st.integers(1, 400))
def test_neither_order_nor_duplicates_nor_batches_change_a_score(checkpoint, monkeypatch, texts, budget):
    scorer = cached(checkpoint, Precision.FLOAT32)
    alone = {text: scorer.score([text]).values[0] for text in texts}
    monkeypatch.setattr(scorer, "_budget", budget)
    np.testing.assert_allclose(scorer.score(texts).values, [alone[text] for text in texts], atol=1e-5, rtol=0)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12), budget=st.integers(1, 400))
def test_nor_with_int8(checkpoint, monkeypatch, texts, budget):
    scorer = cached(checkpoint, Precision.INT8)
    alone = {text: scorer.score([text]).values[0] for text in texts}
    monkeypatch.setattr(scorer, "_budget", budget)
    # Attention and layer norms stay in float32, and what they round otherwise may round a whole number otherwise.
    np.testing.assert_allclose(scorer.score(texts).values, [alone[text] for text in texts], atol=2e-3, rtol=0)


_SCORERS: dict[str, EncoderScorer] = {}


def cached(checkpoint: tuple[Path, Path], precision: Precision) -> EncoderScorer:
    if precision not in _SCORERS:
        _SCORERS[precision] = detoxify_scorer(checkpoint, precision=precision)
    return _SCORERS[precision]


def test_identical_texts_are_scored_once_and_progress_counts_distinct_ones(checkpoint):
    scorer = cached(checkpoint, Precision.FLOAT32)
    rows = []
    hook = scorer._model.register_forward_pre_hook(
        lambda _module, _arguments, inputs: rows.append(len(inputs["input_ids"])), with_kwargs=True
    )
    seen: list[int] = []
    found = scorer.score([*TEXTS, *reversed(TEXTS)], seen.append)
    hook.remove()
    assert sum(rows) == len(set(TEXTS)) == seen[-1]
    assert seen == sorted(seen)
    np.testing.assert_array_equal(found.values[: len(TEXTS)], found.values[len(TEXTS) :][::-1])


def test_what_progress_raises_passes_through(checkpoint):
    def stop(_finished: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(checkpoint, Precision.FLOAT32).score(TEXTS, stop)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [Precision.BFLOAT16, Precision.INT8])
def test_a_lower_precision_deviates_a_little_and_has_a_fingerprint_of_its_own(checkpoint, precision):
    exact, rounded = cached(checkpoint, Precision.FLOAT32), cached(checkpoint, precision)
    deviation = np.abs(rounded.score(TEXTS).values - exact.score(TEXTS).values)
    assert 1e-5 < deviation.max() < 0.05
    assert rounded.fingerprint() != exact.fingerprint()


def test_an_int8_layer_is_the_layer_with_weights_and_inputs_rounded_by_row():
    torch.manual_seed(0)
    linear, inputs = torch.nn.Linear(24, 10), torch.randn(3, 5, 24)
    inputs[0, 0] = 0
    weight_steps = linear.weight.detach().abs().amax(1, keepdim=True) / 127
    input_steps = inputs.abs().amax(2, keepdim=True).clamp_min(1e-30) / 127
    expected = (inputs / input_steps).round().mul(input_steps).double() @ (
        (linear.weight.detach() / weight_steps).round().mul(weight_steps).double().T
    ) + linear.bias.detach().double()
    found = Int8Linear(linear)(inputs)
    assert found.shape == (3, 5, 10)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=0)
    for row in range(3):  # whatever stands beside it
        assert torch.equal(Int8Linear(linear)(inputs[row : row + 1])[0], found[row])


def test_the_fingerprint_is_that_of_contents_not_of_paths(checkpoint, tmp_path):
    moved = Path(shutil.copy(checkpoint[0], tmp_path)), Path(shutil.copytree(checkpoint[1], tmp_path / "elsewhere"))
    first = cached(checkpoint, Precision.FLOAT32)
    settings = json.loads((moved[1] / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["transformers_version"] = "4.0.0"  # that wrote them
    (moved[1] / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert detoxify_scorer(moved).fingerprint() == first.fingerprint()
    first.score(TEXTS[:3])
    assert detoxify_scorer(checkpoint).fingerprint() == first.fingerprint()


@pytest.mark.slow
def test_other_weights_tokenizers_or_labels_are_other_fingerprints(tmp_path):
    folders = [save_classifier(tmp_path / str(number), outputs=3) for number in range(4)]
    save_classifier(folders[1], outputs=3, seed=1)
    tokens = json.loads((folders[2] / "tokenizer.json").read_text(encoding="utf-8"))
    tokens["normalizer"]["lowercase"] = False
    (folders[2] / "tokenizer.json").write_text(json.dumps(tokens), encoding="utf-8")
    save_classifier(folders[3], id2label={0: "a", 1: "b", 2: "c"})
    assert len({classifier(folder).fingerprint() for folder in folders}) == 4


def test_a_checkpoint_that_names_a_hubs_model_needs_no_hub(tmp_path):
    checkpoint = save_detoxify(tmp_path, bert(outputs=7), "bert-base-uncased")
    assert detoxify_scorer(checkpoint).score(["the"]).values.shape == (1, 7)


def test_the_configuration_of_the_plain_encoder_will_do(checkpoint, tmp_path):
    folder = Path(shutil.copytree(checkpoint[1], tmp_path / "config"))
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del content["id2label"], content["label2id"]
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    found = detoxify_scorer((checkpoint[0], folder))
    assert found.fingerprint() == cached(checkpoint, Precision.FLOAT32).fingerprint()


@pytest.mark.parametrize("layers", [1, 3])
def test_a_configuration_of_another_size_is_refused(checkpoint, tmp_path, layers):
    folder = Path(shutil.copytree(checkpoint[1], tmp_path / "config"))
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**content, "num_hidden_layers": layers}), encoding="utf-8")
    with pytest.raises(ScorerUnavailable, match="16 parameters are in one and not in the other"):
        detoxify_scorer((checkpoint[0], folder))


class Code:
    """What runs as it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("ran"),))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", {"state_dict": {}}, ["a"], {"config": Code()}])
def test_what_is_no_checkpoint_is_refused_and_runs_nothing(checkpoint, tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "other.ckpt"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(ScorerUnavailable, match=r"other.ckpt .*cannot be loaded"):
        detoxify_scorer((path, checkpoint[1]))
    assert not (tmp_path / "ran").exists()


def test_files_that_are_missing_or_not_converted_are_named_with_the_command_that_converts(checkpoint, tmp_path):
    shutil.copy(checkpoint[0], tmp_path)
    with pytest.raises(ScorerUnavailable, match=r"detoxify.ckpt cannot be loaded .*config\.json"):
        convert_detoxify(tmp_path, tmp_path / "converted")
    with pytest.raises(ScorerUnavailable, match=r"holds 0 files named \*\.ckpt"):
        convert_detoxify(checkpoint[1], tmp_path / "converted")
    with pytest.raises(ScorerUnavailable, match=r"import_scorer detoxify-original FOLDER"):
        get_scorer("detoxify-original", folder=tmp_path)


@pytest.mark.slow
def test_a_converted_checkpoint_is_the_scorer_that_the_packages_class_makes_of_the_pickle(checkpoint):
    """Boards that scored with a pickle see no other scorer after the conversion."""
    reference = Detoxify(checkpoint=str(checkpoint[0]), huggingface_config_path=str(checkpoint[1]))
    options = {"device": CPU, "libraries": (*LIBRARIES, "detoxify")}
    before = EncoderScorer(reference.model, reference.tokenizer, tuple(harms(CLASSES)), Activation.SIGMOID, **options)
    scorer = detoxify_scorer(checkpoint)
    assert scorer.fingerprint() == before.fingerprint()
    np.testing.assert_array_equal(scorer.score(TEXTS).values, before.score(TEXTS).values)


def test_a_checkpoint_is_converted_with_the_configuration_beside_it_whatever_model_it_names(tmp_path):
    checkpoint = save_detoxify(tmp_path, bert(outputs=16), "nobody/nothing")
    assert (convert(*checkpoint, tmp_path / "there") / "model.safetensors").is_file()


def test_no_pickle_is_read_once_a_checkpoint_is_converted(checkpoint, tmp_path, monkeypatch):
    folder = convert(*checkpoint, tmp_path)
    assert sorted(path.suffix for path in folder.iterdir()) == [".json"] * 4 + [".safetensors"]
    assert convert_detoxify(folder, tmp_path / "again") == folder  # nothing to do

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a pickle was read")

    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr("pickle.Unpickler", refuse)
    assert get_scorer("detoxify-unbiased", folder=folder, device=CPU).score(["the"]).reasons == (None,)


def test_a_converted_folder_that_lacks_weights_is_refused(checkpoint, tmp_path):
    folder = convert(*checkpoint, tmp_path)
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**content, "num_hidden_layers": 3}), encoding="utf-8")
    with pytest.raises(ScorerUnavailable, match=r"holds no Detoxify that can be loaded .*lack 16 parameters"):
        get_scorer("detoxify-unbiased", folder=folder)
    (folder / CLASSES_FILE).unlink()
    with pytest.raises(ScorerUnavailable, match=r"detoxify\.json"):
        get_scorer("detoxify-unbiased", folder=folder)


def test_without_a_connection_a_published_checkpoint_is_unavailable_and_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with StandInHub() as gone:
        address = gone.endpoint
    monkeypatch.setitem(detoxify.detoxify.MODEL_URLS, "original", f"{address}/original.ckpt")
    with pytest.raises(ScorerUnavailable, match=r"(?s)detoxify-original cannot be fetched .*import_scorer"):
        get_scorer("detoxify-original")


@pytest.mark.slow
def test_a_published_checkpoint_is_converted_once_and_used_where_nothing_may_be_fetched(
    checkpoint, monkeypatch, tmp_path
):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setitem(detoxify.detoxify.MODEL_URLS, "original", "http://127.0.0.1:9/original.ckpt")
    with pytest.raises(ScorerUnavailable, match="detoxify-original is not on this machine"):
        get_scorer("detoxify-original", may_fetch=False)
    path = tmp_path / "hub" / "checkpoints" / "original.ckpt"
    path.parent.mkdir(parents=True)
    content = torch.load(checkpoint[0], weights_only=True)
    content["config"]["arch"]["args"]["model_type"] = str(checkpoint[1])  # so that no hub is asked for it
    torch.save(content, path)
    first = get_scorer("detoxify-original", device=CPU)
    path.unlink()
    scorer = get_scorer("detoxify-original", may_fetch=False, device=CPU)
    assert scorer.fingerprint() == first.fingerprint() == detoxify_scorer(checkpoint).fingerprint()
    np.testing.assert_array_equal(scorer.score(TEXTS).values, detoxify_scorer(checkpoint).score(TEXTS).values)


@pytest.mark.slow
def test_an_unknown_precision_is_refused_by_name(checkpoint):
    with pytest.raises(ValueError, match="precision = 'float8': use one of float32, bfloat16, int8"):
        detoxify_scorer(checkpoint, precision="float8")


@pytest.mark.slow
def test_a_hubs_classifier_is_pinned_to_a_commit(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    labels = {0: "negative", 1: "neutral", 2: "other", 3: "positive"}
    folder = save_classifier(tmp_path / "model", id2label=labels)
    with StandInHub() as hub:
        commit = hub.add("org/regard", folder)
        scorer = get_scorer("classifier:org/regard", endpoint=hub.endpoint, device=CPU)
        assert scorer.revision == commit
        assert scorer.fingerprint() == classifier(folder).fingerprint()
        save_classifier(folder, id2label=labels, seed=1)
        hub.add("org/regard", folder)
        newer = get_scorer("classifier:org/regard", endpoint=hub.endpoint, device=CPU)
        pinned = get_scorer("classifier:org/regard", endpoint=hub.endpoint, revision=commit, device=CPU)
        assert newer.fingerprint() != scorer.fingerprint() == pinned.fingerprint()
        with pytest.raises(ScorerUnavailable, match="org/none is not on"):
            get_scorer("classifier:org/none", endpoint=hub.endpoint)
    with pytest.raises(ScorerUnavailable, match="did not answer"):
        get_scorer("classifier:org/other", endpoint=hub.endpoint)


@pytest.mark.slow
def test_a_hubs_classifier_that_may_not_be_fetched_is_used_where_it_was_fetched_before(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    folder = save_classifier(tmp_path / "model", id2label={0: "negative", 1: "neutral", 2: "other", 3: "positive"})
    with StandInHub() as hub:
        hub.add("org/regard", folder)
        with pytest.raises(ScorerUnavailable, match="org/regard is not on this machine"):
            get_scorer("classifier:org/regard", endpoint=hub.endpoint, may_fetch=False)
        assert not any("safetensors" in path for path in hub.requests)
        get_scorer("classifier:org/regard", endpoint=hub.endpoint, device=CPU)
        scorer = get_scorer("classifier:org/regard", endpoint=hub.endpoint, may_fetch=False, device=CPU)
    assert scorer.fingerprint() == classifier(folder).fingerprint()


def test_a_classifier_with_pickled_weights_is_converted_to_the_same_scorer(tmp_path):
    folder = save_classifier(tmp_path / "saved", outputs=2)
    pickled = Path(shutil.copytree(folder, tmp_path / "pickled"))
    (pickled / "model.safetensors").unlink()
    torch.save(bert(outputs=2).state_dict(), pickled / "pytorch_model.bin")
    converted = convert_classifier(pickled, tmp_path / "converted")
    assert not (converted / "pytorch_model.bin").exists()
    assert classifier(converted).fingerprint() == classifier(folder).fingerprint()
    assert convert_classifier(folder, tmp_path / "none") == folder


@pytest.mark.parametrize("content", [b"not weights", ["a"], {"weight": Code()}, {"weight": "text"}])
def test_what_are_no_weights_are_not_converted_and_run_nothing(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(ScorerUnavailable, match=r"pytorch_model.bin cannot be loaded"):
        convert_classifier(tmp_path, tmp_path / "converted")
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_and_code_of_the_models_own_are_refused(tmp_path):
    pickled = save_classifier(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ScorerUnavailable, match="pickled weights can run code"):
        classifier(pickled)
    coded = save_classifier(tmp_path / "coded")
    content = json.loads((coded / "config.json").read_text(encoding="utf-8"))
    (coded / "config.json").write_text(json.dumps({**content, "auto_map": {"AutoConfig": "x.Y"}}), encoding="utf-8")
    with pytest.raises(ScorerUnavailable, match="needs code of its own"):
        classifier(coded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem_type": "regression", "outputs": 1}, "is a regression"),
        ({"id2label": {0: "same", 1: "same"}}, "two labels of .* have the same name"),
    ],
)
def test_a_model_whose_outputs_are_no_labels_is_refused(tmp_path, change, message):
    with pytest.raises(ScorerUnavailable, match=message):
        classifier(save_classifier(tmp_path, **change))


@pytest.mark.slow
def test_a_language_model_is_not_taken_for_a_classifier(tmp_path):
    with pytest.raises(ScorerUnavailable, match=r"lack .* use a model trained as a text classifier"):
        classifier(tiny.save("bert", tmp_path))


def test_a_folder_that_is_missing_or_empty_is_refused(tmp_path):
    for folder, message in ((tmp_path / "none", "is not a folder"), (tmp_path, "has no config.json")):
        with pytest.raises(ScorerUnavailable, match=message):
            classifier(folder)


# What labels mean


def test_labels_whose_names_leave_no_doubt_need_no_declaration(tmp_path):
    folder = save_classifier(tmp_path, id2label={0: "non-toxic", 1: "Toxic"})
    assert get_scorer(f"classifier:{folder}", device=CPU).attributes == (
        Attribute("non-toxic", Meaning.NEUTRAL),
        Attribute("Toxic", Meaning.HARM),
    )


@pytest.mark.parametrize(
    ("labels", "meanings"),
    [
        (["nothate", "hate"], "neutral harm"),
        (["hate", "Not_Hate"], "harm neutral"),
        (["neutral", "toxic"], "neutral harm"),
        (["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"], "harm " * 6),
        (["positive", "neutral", "other", "negative"], "good neutral neutral harm"),
        (["POSITIVE", "NEGATIVE"], ""),  # of sentiment? of a harm that was found?
        (["LABEL_0", "LABEL_1"], ""),
        (["negative", "neutral", "positive"], " neutral "),
    ],
)
def test_a_name_says_what_a_label_means_or_nothing_does(labels, meanings):
    expected = [of.strip() for of in (meanings.split(" ") if meanings.strip() else [])]
    found = known_meanings(labels)
    assert [found.get(label, "") for label in labels] == (expected or [""] * len(labels))[: len(labels)]


def test_the_other_one_of_two_labels_is_no_harm(tmp_path):
    folder = save_classifier(tmp_path, outputs=2, problem_type="single_label_classification")
    scorer = get_scorer(f"classifier:{folder}", device=CPU, meanings={"LABEL_1": Meaning.HARM})
    assert [attribute.meaning for attribute in scorer.attributes] == [Meaning.NEUTRAL, Meaning.HARM]


@pytest.mark.parametrize(
    ("settings_", "meanings", "says"),
    [
        ({"outputs": 2}, {}, "label 'LABEL_0' of config.json of .* --harm-label LABEL_0"),
        ({"outputs": 3}, {"LABEL_0": "harm"}, "label 'LABEL_1' of config.json"),
        ({"outputs": 2, "problem_type": "multi_label_classification"}, {"LABEL_0": "harm"}, "label 'LABEL_1'"),
        ({"outputs": 2}, {"LABEL_2": "harm"}, "label 'LABEL_2' is declared .* whose labels are LABEL_0, LABEL_1"),
        # The label map of a ready metric, on files of another model.
        ({"id2label": {0: "benign", 1: "toxic"}}, {"LABEL_0": "neutral", "LABEL_1": "harm"}, "'LABEL_0' is declared"),
        ({"outputs": 3}, {"LABEL_0": "neutral", "LABEL_1": "harm"}, "label 'LABEL_2'"),
    ],
)
def test_a_label_of_which_nobody_knows_what_it_means_is_refused(tmp_path, settings_, meanings, says):
    folder = save_classifier(tmp_path, **settings_)
    with pytest.raises(UndeclaredLabel, match=says):
        get_scorer(f"classifier:{folder}", device=CPU, meanings={name: Meaning(of) for name, of in meanings.items()})


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    folder = save_classifier(tmp_path)
    tokens = AutoTokenizer.from_pretrained(folder)
    tokens.add_tokens(["quiteanothertoken", "andonemore"])
    tokens.save_pretrained(folder)
    with pytest.raises(ScorerUnavailable, match="tokenizer that it was trained with"):
        classifier(folder)


def test_a_fingerprint_is_of_all_that_fixes_the_scores_of_a_classifier(tmp_path, monkeypatch):
    parts: dict[str, Any] = {}
    monkeypatch.setattr("scoring.scorers.encoder.fingerprint_of", lambda **values: parts.update(values) or "print")
    scorer = classifier(save_classifier(tmp_path / "one"))
    assert scorer.fingerprint() == "print"
    digests = {name: parts.pop(name) for name in ("weights", "config", "tokenizer")}
    assert parts == {
        "scorer": "encoder",
        "attributes": scorer.attribute_names,
        "activation": scorer.activation,
        "precision": "float32",
        "longest": CONTEXT,
        "truncation": "end",
        "device": "cpu",
        "libraries": {name: version(name) for name in ("torch", "transformers", "tokenizers")},
    }
    assert len(digests["weights"]) == 64
    assert digests["config"]["model_type"] == "bert"
    assert not {"_name_or_path", "transformers_version"} & digests["config"].keys()
    assert "tokenizer.json" in digests["tokenizer"]
    assert "name_or_path" not in digests["tokenizer"]["tokenizer_config.json"]
