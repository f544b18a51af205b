"""What a model is, from its configuration alone."""

from dataclasses import dataclass
from typing import Literal

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from scoring.language_models.configuration import MOST_LAYERS, briefly
from scoring.language_models.refusals import ModelRefused

Kind = Literal["causal", "masked", "permutation"]

PERMUTATION_TYPES = {"xlnet"}
DISCRIMINATORS = {"ElectraForPreTraining", "FunnelForPreTraining"}
UNLIMITED_CONTEXT = 512  # for models whose configuration names no longest text, as XLNet's
CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length")
# RoBERTa and its kin number positions from the padding id + 1, and spend that many of them.
POSITIONS_AFTER_PADDING = {
    "camembert",
    "data2vec-text",
    "ibert",
    "longformer",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
}
# Their published files hold the causal mask of every layer, which is a third of the smallest Pythia.
STORED_MASKS = {"codegen", "gpt2", "gpt_neo", "gpt_neox", "gptj"}
ACCEPTED = (
    "accepted are models that transformers knows as causal (GPT-2, Llama, ...: names ending in ForCausalLM or "
    "LMHeadModel), masked (BERT, ...: ForMaskedLM or ForPreTraining) or permutation (XLNet)"
)

# Names that people use for model types; others are shown as the type itself.
FAMILIES = {
    "albert": "ALBERT",
    "bert": "BERT",
    "deberta-v2": "DeBERTa",
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "falcon": "Falcon",
    "gemma": "Gemma",
    "gemma2": "Gemma 2",
    "gemma3_text": "Gemma 3",
    "gpt2": "GPT-2",
    "gpt_neo": "GPT-Neo",
    "gpt_neox": "GPT-NeoX",
    "gptj": "GPT-J",
    "llama": "Llama",
    "mistral": "Mistral",
    "mobilebert": "MobileBERT",
    "modernbert": "ModernBERT",
    "opt": "OPT",
    "phi3": "Phi-3",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-RoBERTa",
    "xlnet": "XLNet",
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """Kind of likelihood, names and sizes of a model.

    `parameters` counts tied weights once. `heads` is 0 for a model without attention. `context` is the longest text
    in tokens, special tokens included. `stored` is how many numbers its files may hold: tied weights each time, and
    buffers, which some files hold as well; 0 where nobody counted.
    """

    kind: Kind
    model_type: str
    class_name: str
    family: str
    parameters: int
    layers: int
    heads: int
    hidden_size: int
    context: int
    vocabulary: int
    stored: int = 0

    @property
    def auto_class(self) -> type[AutoModelForCausalLM] | type[AutoModelForMaskedLM]:
        """The class that loads such a model."""
        return _auto_class(self.kind)

    @property
    def attention(self) -> str:
        """Which attention code runs: torch's fused one where the model has it."""
        return _attention(self.class_name)


def inspect(config: PretrainedConfig) -> Architecture:
    """Describe the model of `config`; parameters are counted without allocating them.

    Raises ModelRefused for what is no language model of a known kind, or whose configuration makes no model.
    """
    kind = kind_of(config)
    names = MODEL_FOR_MASKED_LM_MAPPING_NAMES if kind == "masked" else MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    class_name = str(names[config.model_type])
    try:
        layers = int(config.num_hidden_layers)
        if not 0 < layers <= MOST_LAYERS:
            raise ValueError(f"it has {layers} layers, not 1 to {MOST_LAYERS}")
        parameters, stored = _count(config, kind, class_name)
        return Architecture(
            kind=kind,
            model_type=config.model_type,
            class_name=class_name,
            family=FAMILIES.get(config.model_type, config.model_type),
            parameters=parameters,
            layers=layers,
            heads=int(getattr(config, "num_attention_heads", 0)),
            hidden_size=int(config.hidden_size),
            context=context_of(config),
            vocabulary=int(config.vocab_size),
            stored=stored,
        )
    except Exception as error:  # a configuration is anyone's text, and building from it raises anything
        raise ModelRefused(
            f"config.json describes no {class_name} that can be built ({briefly(error)}): correct it, or use another "
            "revision"
        ) from error


def kind_of(config: PretrainedConfig) -> Kind:
    """Which likelihood the model has. Raises ModelRefused when it has none that is known here."""
    listed = config.architectures
    name = str(listed[0]) if isinstance(listed, list) and listed else ""
    model_type = config.model_type
    shown = name or model_type or "a model without model_type"
    if name in DISCRIMINATORS:
        raise ModelRefused(
            f"{name} is a discriminator: it tells replaced words from true ones and gives texts no likelihood. "
            "Enter the generator it was trained with"
        )
    if config.is_encoder_decoder:
        raise ModelRefused(f"{shown} is an encoder-decoder, which has no likelihood of a text alone: {ACCEPTED}")
    masked = model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    causal = model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if model_type in PERMUTATION_TYPES and name in ("", "XLNetLMHeadModel"):
        return "permutation"
    if masked and (not name or name.endswith(("ForMaskedLM", "ForPreTraining"))):
        return "masked"
    if causal and (not name or name.endswith(("ForCausalLM", "LMHeadModel"))):
        if masked and not getattr(config, "is_decoder", False):
            raise ModelRefused(
                f"{shown} without is_decoder in config.json sees the words to come, so its causal likelihood means "
                "nothing: set is_decoder if it was trained as a decoder, else save it as a masked model"
            )
        return "causal"
    raise ModelRefused(f"{shown} is not a language model with a likelihood: {ACCEPTED}")


def context_of(config: PretrainedConfig) -> int:
    """Longest text in tokens, special tokens included; UNLIMITED_CONTEXT where the configuration sets no limit."""
    for name in CONTEXT_NAMES:
        context = getattr(config, name, None)
        if isinstance(context, int) and context > 0:
            padding = getattr(config, "pad_token_id", None)
            spent = (1 if padding is None else padding) + 1 if config.model_type in POSITIONS_AFTER_PADDING else 0
            return context - spent
    return UNLIMITED_CONTEXT


def _auto_class(kind: Kind) -> type[AutoModelForCausalLM] | type[AutoModelForMaskedLM]:
    auto: type[AutoModelForCausalLM] | type[AutoModelForMaskedLM]
    auto = AutoModelForMaskedLM if kind == "masked" else AutoModelForCausalLM
    return auto


def _attention(class_name: str) -> str:
    return "sdpa" if getattr(transformers, class_name)._supports_sdpa else "eager"


def _count(config: PretrainedConfig, kind: Kind, class_name: str) -> tuple[int, int]:
    """Numbers of the model: as parameters, and as its files may hold them."""
    # The attention is named because a configuration may otherwise name a repository of compiled kernels to fetch; the
    # type because transformers makes it the default of the whole process meanwhile, of threads that compute as well.
    options = {"attn_implementation": _attention(class_name), "dtype": torch.float32}
    with torch.device("meta"):
        model: PreTrainedModel = _auto_class(kind).from_config(config, **options)
    stored = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    masks = int(config.num_hidden_layers) * context_of(config) ** 2 if config.model_type in STORED_MASKS else 0
    return (
        sum(parameter.numel() for parameter in model.parameters()),
        sum(tensor.numel() for _, tensor in stored) + masks,
    )
