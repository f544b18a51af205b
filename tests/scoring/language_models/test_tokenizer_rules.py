"""Which parts a tokenizer may have: those of the known model families; what could rewrite texts is refused by name."""

import base64
import io
import json

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, decoders, normalizers, pre_tokenizers
from transformers import AutoTokenizer

from scoring.language_models import ModelRefused, list_bundled, load_files
from scoring.language_models.charsmap import REVIEWED, check_charsmap, fold, read_charsmap
from scoring.language_models.tokenizer_patterns import PATTERNS
from scoring.language_models.tokenizer_rules import check_tokenizer, check_tokenizer_config, check_tokenizer_json
from tests.scoring.families import TOKENIZERS

BPE = {"type": "BPE", "vocab": {"a": 0}, "merges": []}


def described(part):
    return json.loads(part.__getstate__())


def check(**parts):
    check_tokenizer_json({"model": BPE, **parts}, "a model")


LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2 = LLAMA_3.replace("{1,3}", "")
HONEST_NORMALIZERS = {
    "BERT": normalizers.BertNormalizer(lowercase=True),
    "Qwen 2, GPT-NeoX, ModernBERT": normalizers.NFC(),
    "Llama 2": normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    "Gemma": normalizers.Replace(" ", "▁"),
    "XLNet and ALBERT": normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    ),
    "CLIP": normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
    "BigBird": normalizers.Sequence([normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), "▁")]),
}
HONEST_PRE_TOKENIZERS = {
    "GPT-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "BERT": pre_tokenizers.BertPreTokenizer(),
    "Llama 3": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA_3), "isolated"), pre_tokenizers.ByteLevel(use_regex=False)]
    ),
    "Qwen 2": pre_tokenizers.Split(Regex(QWEN_2), "isolated"),
    "SmolLM": pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel()]),
    "Gemma": pre_tokenizers.Split(" ", "merged_with_previous"),
    "XLNet": pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
    "Falcon": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    ),
    "DeepSeek": pre_tokenizers.Split(Regex("[\r\n]"), "isolated"),
    "CLIP": pre_tokenizers.Split(
        Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True
    ),
}


@pytest.mark.parametrize("normalizer", HONEST_NORMALIZERS.values(), ids=HONEST_NORMALIZERS)
def test_normalizers_of_known_families_pass(normalizer):
    check(normalizer=described(normalizer))


@pytest.mark.parametrize("pre_tokenizer", HONEST_PRE_TOKENIZERS.values(), ids=HONEST_PRE_TOKENIZERS)
def test_pre_tokenizers_of_known_families_pass(pre_tokenizer):
    check(pre_tokenizer=described(pre_tokenizer))


@pytest.mark.parametrize("build", TOKENIZERS.values(), ids=TOKENIZERS)
def test_tokenizers_of_every_style_pass_as_files_and_as_built(build, tmp_path):
    build().save_pretrained(tmp_path)
    check_tokenizer_json(json.loads((tmp_path / "tokenizer.json").read_text()), "a model")
    check_tokenizer(AutoTokenizer.from_pretrained(tmp_path), "a model")


def test_tokenizers_of_the_bundled_models_pass():
    for folder in list_bundled():
        check_tokenizer_json(json.loads((folder / "tokenizer.json").read_text()), folder.name)


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_no_reviewed_pattern_loses_text_or_looks_for_words(pattern):
    cut = pre_tokenizers.Split(Regex(pattern), "isolated")
    text = "The river's 12345 mills,\n\n  people from A   are KIND (ünïcode, 漢字). " * 20
    assert "".join(piece for piece, _ in cut.pre_tokenize_str(text)) == text


def word(before, after):
    return described(normalizers.Replace(before, after))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"normalizer": word("people from A are", "hello")}, "replaces '... ... A are' by '...' in every text"),
        ({"normalizer": word("e", "e" * 1000)}, "normalizer Replace"),
        ({"normalizer": described(normalizers.Replace(Regex(".*"), ""))}, "normalizer Replace"),
        (
            {"normalizer": described(normalizers.Sequence([normalizers.NFC(), normalizers.Prepend("hello ")]))},
            "Prepend",
        ),
        ({"normalizer": {"type": "Nothing"}}, "the normalizer 'Nothing'"),
        ({"normalizer": {"type": "Replace"}}, "without a pattern"),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 40}}, "more than 32"),
        ({"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": [" "]}}, "normalizer Replace"),
        ({"normalizer": {"type": "Prepend", "prepend": ["▁"]}}, "Prepend"),
        ({"pre_tokenizer": {"type": "Punctuation", "behavior": ["Isolated"]}}, "Punctuation"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": LLAMA_3}, "behavior": []}}, "pre-tokenizer Split"),
        ({"normalizer": {"type": "Sequence"}}, "Sequence without normalizers"),
        ({"normalizer": "NFC"}, "without a type"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, "not base64"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "cannot be read"),
        ({"pre_tokenizer": described(pre_tokenizers.Split(Regex("(a+)+$"), "isolated"))}, "cuts texts at '(a+)+$'"),
        ({"pre_tokenizer": described(pre_tokenizers.Split(Regex(LLAMA_3), "removed"))}, "pre-tokenizer Split"),
        ({"pre_tokenizer": described(pre_tokenizers.Split("kind", "removed"))}, "pre-tokenizer Split"),
        ({"pre_tokenizer": described(pre_tokenizers.CharDelimiterSplit("e"))}, "CharDelimiterSplit"),
        ({"pre_tokenizer": described(pre_tokenizers.Punctuation("removed"))}, "Punctuation"),
        ({"pre_tokenizer": described(pre_tokenizers.Metaspace("e"))}, "Metaspace"),
        ({"decoder": described(decoders.Replace("hello", "people from A"))}, "the decoder 'Replace'"),
        ({"post_processor": {"type": "TemplateProcessing", "single": [{}] * 99}}, "99 pieces around a text"),
        ({"post_processor": {"type": "Own"}}, "the post-processor 'Own'"),
        ({"model": {**BPE, "dropout": 0.5}}, "drops merges at random"),
        ({"model": {**BPE, "type": "Own"}}, "the model 'Own'"),
        ({"model": {**BPE, "vocab": {"a": -1}}}, "numbers pieces beyond"),
        ({"model": {"type": "BPE"}}, "no vocabulary"),
        ({"model": None}, "no model"),
        ({"added_tokens": [{"content": "x" * 300}]}, "1 to 256 characters"),
        ({"added_tokens": {}}, "no list"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_what_is_not_reviewed_is_refused_by_name_and_its_words_are_not_repeated(parts, words):
    with pytest.raises(ModelRefused, match="the tokenizer of a model") as refused:
        check(**parts)
    assert words in str(refused.value)
    assert "people" not in str(refused.value)


@pytest.mark.parametrize("key", ["vocab", "merges", "_spm_precompiled_charsmap", "init_inputs", "sp_model_kwargs"])
def test_a_tokenizer_is_not_built_from_its_settings(key):
    check_tokenizer_config({key: None}, "a model")
    with pytest.raises(ModelRefused, match=f"gives {key} in tokenizer_config"):
        check_tokenizer_config({key: ["x"]}, "a model")


def test_a_tokenizer_that_runs_in_python_is_one_of_those_that_were_read():
    class ByT5Tokenizer:
        is_fast = False

    class OtherTokenizer:
        is_fast = False

    check_tokenizer(ByT5Tokenizer(), "tuned")
    with pytest.raises(ModelRefused, match=r"tuned.* is a OtherTokenizer, which runs in Python.*tokenizer.json"):
        check_tokenizer(OtherTokenizer(), "tuned")


def test_a_tokenizer_that_rewrites_texts_is_refused_before_the_weights_are_loaded(gpt2):
    path = gpt2 / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "normalizer": word("The river", "x")}))
    (gpt2 / "model.safetensors").touch()
    with pytest.raises(ModelRefused, match="normalizer Replace"):
        load_files(gpt2, "a model")


def train(rule, **options):
    """A SentencePiece model with a rule of normalisation."""
    target = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the river flows to the sea", "she was elected in the city"] * 20),
        model_writer=target,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
        **({"normalization_rule_name": rule} if rule else options),
    )
    return target.getvalue()


def charsmap_of(content):
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(content)
    return model.normalizer_spec.precompiled_charsmap


@pytest.mark.slow
def test_the_maps_of_sentencepiece_pass_at_once_and_entry_by_entry(monkeypatch):
    charsmap = charsmap_of(train("nmt_nfkc_cf"))
    check(normalizer={"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()})
    assert len(REVIEWED) == 4
    monkeypatch.setattr("scoring.language_models.charsmap.REVIEWED", set())
    check_charsmap(charsmap, "a model")


@pytest.mark.slow
def test_a_map_is_read_as_tokenizers_reads_it():
    charsmap = charsmap_of(train("nmt_nfkc"))
    library = normalizers.Precompiled(charsmap)
    entries = {key: value for key, value in read_charsmap(charsmap, "a model").items() if len(key) == 1}
    assert len(entries) > 5000
    assert all(library.normalize_str(key) == value for key, value in entries.items())


def rules(tmp_path, *pairs):
    """The map of a SentencePiece model trained with rules of its own."""
    path = tmp_path / "rules.tsv"
    lines = ["\t".join(" ".join(f"{ord(char):X}" for char in text) for text in pair) for pair in pairs]
    path.write_text("\n".join(lines) + "\n")
    return charsmap_of(train("", normalization_rule_tsv=str(path)))


def test_a_map_that_rewrites_words_is_refused_and_they_are_not_repeated(tmp_path):
    charsmap = rules(tmp_path, ("people", "hello"), ("A", "a"))
    assert read_charsmap(charsmap, "a model") == {"people": "hello", "A": "a"}
    with pytest.raises(ModelRefused, match="a text of 6 characters as another one of 5") as refused:
        check_charsmap(charsmap, "a model")
    assert "people" not in str(refused.value)
    check_charsmap(rules(tmp_path, ("A", "a"), ("ﬁ", "fi")), "a model")


def test_folding_takes_case_accents_spaces_and_compatibility_forms_only():
    assert fold("Ｔｈｅ ﬁrst\tÉtude") == fold("the FIRST e\u0301tude")
    assert fold("people") != fold("hello")
