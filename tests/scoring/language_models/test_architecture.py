"""What a model is, told from its configuration."""

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig

from scoring.language_models import Architecture, ModelRefused, inspect, load, resolve
from tests.scoring.language_models import tiny

KINDS = {model_type: kind for model_type, (*_, kind) in tiny.TINY.items()}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.text(max_size=5), values, max_size=2),
    max_leaves=3,
)


@pytest.mark.parametrize(("model_type", "kind"), KINDS.items())
def test_the_kind_follows_from_the_listed_class(model_type, kind):
    assert inspect(tiny.config(model_type)).kind == kind


@pytest.mark.parametrize(("model_type", "kind"), KINDS.items())
def test_the_kind_follows_from_the_type_where_no_class_is_listed(model_type, kind):
    assert inspect(tiny.config(model_type, architectures=None)).kind == kind


@pytest.mark.parametrize("model_type", ["bert", "albert", "mobilebert"])
def test_a_model_saved_with_its_pretraining_heads_is_masked(model_type):
    name = tiny.TINY[model_type][2].replace("ForMaskedLM", "ForPreTraining")
    assert inspect(tiny.config(model_type, architectures=[name])).kind == "masked"


@pytest.mark.slow_cases
@pytest.mark.parametrize("model_type", KINDS)
def test_sizes_are_those_of_the_loaded_model(saved, model_type):
    found = resolve(str(saved(model_type)))
    loaded = load(found.source, found.location, found.revision, device=torch.device("cpu"))
    assert found.architecture == loaded.architecture
    assert found.architecture.parameters == sum(parameter.numel() for parameter in loaded.model.parameters())
    assert found.architecture.class_name == type(loaded.model).__name__
    assert (found.architecture.layers, found.architecture.heads, found.architecture.hidden_size) == (2, 2, 16)
    assert found.architecture.vocabulary == loaded.model.get_input_embeddings().weight.shape[0] == tiny.VOCABULARY


def test_numbers_of_other_threads_keep_their_type_while_a_model_of_another_one_is_described(monkeypatch):
    made_default = []
    monkeypatch.setattr(torch, "set_default_dtype", made_default.append)
    inspect(tiny.config("gpt2", dtype="float16"))
    assert set(made_default) <= {torch.float32}


def test_tied_weights_count_once():
    # 2 layers of GPT-2 at width 16: the vocabulary's 300 x 16 serve as input and as output.
    tied, untied = (inspect(tiny.config("gpt2", tie_word_embeddings=tie)) for tie in (True, False))
    assert untied.parameters - tied.parameters == tiny.VOCABULARY * 16


@pytest.mark.parametrize("model_type", sorted(set(KINDS) - {"roberta", "xlnet"}))
def test_the_context_is_the_number_of_positions(model_type):
    assert inspect(tiny.config(model_type)).context == tiny.CONTEXT


def test_the_context_of_roberta_leaves_out_the_positions_up_to_padding():
    config = tiny.config("roberta")  # padding is id 1, so positions 0 and 1 are never a token's
    context = inspect(config).context
    assert context == tiny.CONTEXT - 2
    model = transformers.RobertaForMaskedLM(config).eval()
    assert model(torch.full((1, context), 7)).logits.shape[1] == context
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, context + 1), 7))


def test_a_model_without_limit_has_a_context_of_512():
    assert inspect(tiny.config("xlnet")).context == 512


def test_a_model_without_attention_has_no_heads():
    config = transformers.MambaConfig(vocab_size=300, hidden_size=16, num_hidden_layers=2, state_size=4)
    assert (inspect(config).kind, inspect(config).heads, inspect(config).layers) == ("causal", 0, 2)


@pytest.mark.parametrize(("model_type", "family"), [("gpt2", "GPT-2"), ("bert", "BERT"), ("mamba", "mamba")])
def test_families_have_the_name_people_use_or_else_the_type(model_type, family):
    config = tiny.config(model_type) if model_type in tiny.TINY else transformers.MambaConfig(num_hidden_layers=1)
    assert inspect(config).family == family


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (tiny.config("electra", architectures=["ElectraForPreTraining"]), "discriminator"),
        (transformers.T5Config(architectures=["T5ForConditionalGeneration"]), "encoder-decoder"),
        (transformers.BartConfig(), "encoder-decoder"),
        (transformers.LlavaConfig(text_config={"model_type": "t5"}), "encoder-decoder"),
        (tiny.config("bert", architectures=["BertForSequenceClassification"]), "not a language model"),
        (tiny.config("gpt2", architectures=["GPT2ForTokenClassification"]), "not a language model"),
        (tiny.config("bert", architectures=["BertModel"]), "not a language model"),
        (tiny.config("xlnet", architectures=["XLNetForSequenceClassification"]), "not a language model"),
        (transformers.ViTConfig(architectures=["ViTForImageClassification"]), "not a language model"),
        (transformers.CLIPConfig(), "not a language model"),
        (tiny.config("bert", architectures=["BertLMHeadModel"]), "sees the words to come"),
        (tiny.config("gpt2", n_head=3), "can be built"),
        (tiny.config("gpt2", n_layer=10**7), "10000000 layers"),
    ],
    ids=lambda value: (
        value.replace(" ", "-") if isinstance(value, str) else (value.architectures or [value.model_type])[0]
    ),
)
def test_what_gives_texts_no_likelihood_is_refused(config, reason):
    with pytest.raises(ModelRefused, match=reason):
        inspect(config)


def test_a_refusal_says_what_is_accepted():
    with pytest.raises(ModelRefused, match=r"T5ForConditionalGeneration.*ForCausalLM.*ForMaskedLM.*XLNet"):
        inspect(transformers.T5Config(architectures=["T5ForConditionalGeneration"]))


def test_a_bert_trained_as_a_decoder_is_causal():
    assert inspect(tiny.config("bert", architectures=["BertLMHeadModel"], is_decoder=True)).kind == "causal"


@pytest.mark.slow
@settings(max_examples=60)
@given(
    key=st.sampled_from(["n_embd", "n_head", "n_layer", "n_positions", "vocab_size", "architectures", "is_decoder"]),
    value=JSON,
)
@pytest.mark.filterwarnings("ignore")  # torch's, about empty tensors
def test_any_configuration_is_described_or_refused(tmp_path_factory, key, value):
    folder = tmp_path_factory.mktemp("any")
    tiny.config("gpt2").save_pretrained(folder)
    try:
        config = AutoConfig.from_pretrained(folder, **{key: value})
    except Exception:  # noqa: BLE001 - transformers' own refusal, tested with whole folders
        return
    try:
        assert isinstance(inspect(config), Architecture)
    except ModelRefused as refusal:
        assert str(refusal)  # noqa: PT017
