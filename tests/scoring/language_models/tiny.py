"""Real models of every accepted architecture, so small that they are made in milliseconds."""

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PretrainedConfig, PreTrainedTokenizerFast

SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
VOCABULARY = 300
CONTEXT = 40
CARD = "---\nlicense: apache-2.0\n---\n# A model\n"

_IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": CONTEXT,
    **_IDS,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 1, "head_dim": 8}
_DISTILBERT = {"vocab_size": VOCABULARY, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, **_IDS}

# model type: (configuration class, its arguments, the class of the model, what the model is)
TINY = {
    "gpt2": (
        "GPT2Config",
        {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": CONTEXT, **_IDS},
        "GPT2LMHeadModel",
        "causal",
    ),
    "llama": ("LlamaConfig", _GROUPED, "LlamaForCausalLM", "causal"),
    "opt": (
        "OPTConfig",
        {**_SIZES, "ffn_dim": 32, "word_embed_proj_dim": 16, "pad_token_id": 1},
        "OPTForCausalLM",
        "causal",
    ),
    "gpt_neox": ("GPTNeoXConfig", _SIZES, "GPTNeoXForCausalLM", "causal"),
    "qwen2": ("Qwen2Config", _GROUPED, "Qwen2ForCausalLM", "causal"),
    "qwen3": ("Qwen3Config", _GROUPED, "Qwen3ForCausalLM", "causal"),
    "gemma": ("GemmaConfig", _GROUPED, "GemmaForCausalLM", "causal"),
    "mistral": ("MistralConfig", _GROUPED, "MistralForCausalLM", "causal"),
    "bert": ("BertConfig", _SIZES, "BertForMaskedLM", "masked"),
    "roberta": ("RobertaConfig", {**_SIZES, "pad_token_id": 1}, "RobertaForMaskedLM", "masked"),
    "distilbert": (
        "DistilBertConfig",
        {**_DISTILBERT, "max_position_embeddings": CONTEXT},
        "DistilBertForMaskedLM",
        "masked",
    ),
    "albert": ("AlbertConfig", {**_SIZES, "embedding_size": 8}, "AlbertForMaskedLM", "masked"),
    "electra": ("ElectraConfig", {**_SIZES, "embedding_size": 8}, "ElectraForMaskedLM", "masked"),
    "mobilebert": (
        "MobileBertConfig",
        {**_SIZES, "embedding_size": 8, "intra_bottleneck_size": 8, "true_hidden_size": 8},
        "MobileBertForMaskedLM",
        "masked",
    ),
    "xlnet": (
        "XLNetConfig",
        {"vocab_size": VOCABULARY, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32, **_IDS},
        "XLNetLMHeadModel",
        "permutation",
    ),
}


def config(model_type: str, **changes: object) -> PretrainedConfig:
    """A tiny configuration that names its model class, as published ones do."""
    name, arguments, class_name, _ = TINY[model_type]
    return getattr(transformers, name)(**{**arguments, "architectures": [class_name], **changes})


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte pairs of 300 entries, and [CLS] ... [SEP] around every text."""
    trained = Tokenizer(models.BPE(unk_token="[UNK]"))
    trained.pre_tokenizer = pre_tokenizers.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(["the river flows to the sea", "she was elected in the city"], trainer)
    trained.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=trained, **SPECIAL)


def save(model_type: str, folder: Path, *, seed: int = 0, **changes: object) -> Path:
    """Save a randomly initialised model, its tokenizer and a card to `folder`, which is returned."""
    torch.manual_seed(seed)
    auto_class = AutoModelForMaskedLM if TINY[model_type][3] == "masked" else AutoModelForCausalLM
    auto_class.from_config(config(model_type, **changes)).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder
