"""What a model is, from its configuration alone."""

import torch
import transformers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from scoring.language_models.configuration import MOST_LAYERS, briefly
from scoring.language_models.description import Architecture, Kind
from scoring.language_models.quantisation import is_quantised
from scoring.language_models.refusals import ModelRefused

AutoClass = type[AutoModelForCausalLM] | type[AutoModelForMaskedLM] | type[AutoModelForImageTextToText]

PERMUTATION_TYPES = {"xlnet"}
DISCRIMINATORS = {"ElectraForPreTraining", "FunnelForPreTraining"}
UNLIMITED_CONTEXT = 512  # for models whose configuration names no longest text, as XLNet's
CONTEXT_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length")
# RoBERTa and its kin number positions from the padding id + 1, and spend that many of them.
POSITIONS_AFTER_PADDING = {
    "camembert",
    "data2vec-text",
    "esm",
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
    "LMHeadModel), masked (BERT, ...: ForMaskedLM or ForPreTraining) or permutation (XLNet), and the text part of "
    "those that see pictures as well (Gemma 3, Qwen2.5-VL, ...: ForConditionalGeneration)"
)

# Of these, which also hear or see, only the text part is loaded: the others need libraries that are not installed.
TEXT_ALONE = {"gemma3n"}
TEXT_TENSORS = ("model.language_model.", "lm_head.")  # as their files name what is loaded

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
    "gemma3": "Gemma 3",
    "gemma3_text": "Gemma 3",
    "gemma3n": "Gemma 3n",
    "gemma3n_text": "Gemma 3n",
    "gemma4": "Gemma 4",
    "gemma4_text": "Gemma 4",
    "gpt2": "GPT-2",
    "gpt_neo": "GPT-Neo",
    "gpt_neox": "GPT-NeoX",
    "gptj": "GPT-J",
    "llama": "Llama",
    "llama4": "Llama 4",
    "llama4_text": "Llama 4",
    "mistral": "Mistral",
    "mistral3": "Mistral 3",
    "mobilebert": "MobileBERT",
    "modernbert": "ModernBERT",
    "opt": "OPT",
    "phi3": "Phi-3",
    "qwen2": "Qwen2",
    "qwen2_5_vl": "Qwen2.5-VL",
    "qwen3": "Qwen3",
    "qwen3_5": "Qwen3.5",
    "qwen3_5_text": "Qwen3.5",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-RoBERTa",
    "xlnet": "XLNet",
}


def inspect(config: PretrainedConfig) -> Architecture:
    """Describe the model of `config`; parameters are counted without allocating them.

    Raises ModelRefused for what is no language model of a known kind, or whose configuration makes no model.
    """
    kind, class_name = classify(config)
    text = config.get_text_config(decoder=True)
    if config.model_type in TEXT_ALONE:
        if is_quantised(config):
            raise ModelRefused(
                f"{class_name} is quantised, and its text part is read from ordinary weights alone: use the model that "
                "it was made from"
            )
        return inspect(text)
    try:
        layers = int(getattr(text, "num_hidden_layers", 0))
        if not 0 < layers <= MOST_LAYERS:
            raise ValueError(f"it has {layers} layers, not 1 to {MOST_LAYERS}")
        parameters, stored_count = _count(config, kind, class_name)
        return Architecture(
            kind=kind,
            model_type=config.model_type,
            class_name=class_name,
            family=FAMILIES.get(config.model_type, config.model_type),
            parameters=parameters,
            layers=layers,
            heads=heads_of(text),
            hidden_size=int(text.hidden_size),
            context=context_of(text),
            vocabulary=int(text.vocab_size),
            stored=stored_count,
        )
    except Exception as error:  # a configuration is anyone's text, and building from it raises anything
        raise ModelRefused(
            f"config.json describes no {class_name} that can be built ({briefly(error)}): correct it, or use another "
            "revision"
        ) from error


def classify(config: PretrainedConfig) -> tuple[Kind, str]:
    """Which likelihood the model has, and the class of transformers that gives it.

    Raises ModelRefused where there is none that is known here.
    """
    architectures = config.architectures
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    model_type = config.model_type
    label = name or model_type or "a model without model_type"
    if name in DISCRIMINATORS:
        raise ModelRefused(
            f"{name} is a discriminator: it tells replaced words from true ones and gives texts no likelihood. "
            "Enter the generator it was trained with"
        )
    if config.is_encoder_decoder or getattr(config.get_text_config(decoder=True), "is_encoder_decoder", False):
        raise ModelRefused(
            f"{label} is an encoder-decoder, which has no likelihood of a text alone; that of a text after an empty "
            f"source is not offered: {ACCEPTED}"
        )
    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model_type)
    masked_class = MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(model_type)
    vision_class = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(model_type)
    if model_type in PERMUTATION_TYPES and name in ("", "XLNetLMHeadModel"):
        return "permutation", str(causal)
    both_ways = not getattr(config, "causal", False)  # XLM and FlauBERT have one class for either kind
    if masked_class and both_ways and (name in ("", masked_class) or name.endswith(("ForMaskedLM", "ForPreTraining"))):
        return "masked", str(masked_class)
    if causal and (name in ("", causal) or name.endswith(("ForCausalLM", "LMHeadModel"))):
        if masked_class and both_ways and not getattr(config, "is_decoder", False):
            raise ModelRefused(
                f"{label} without is_decoder in config.json sees the words to come, so its causal likelihood means "
                "nothing: set is_decoder if it was trained as a decoder, else save it as a masked model"
            )
        return "causal", str(causal)
    if vision_class and name in ("", vision_class) and "text_config" in config.sub_configs:
        return "causal", str(vision_class)
    raise ModelRefused(f"{label} is not a language model that is scored here: {ACCEPTED}")


def context_of(config: PretrainedConfig) -> int:
    """Longest text in tokens, special tokens included; UNLIMITED_CONTEXT where the configuration sets no limit."""
    for name in CONTEXT_NAMES:
        context = getattr(config, name, None)
        if isinstance(context, int) and context > 0:
            return context - first_position(config)
    return UNLIMITED_CONTEXT


def heads_of(config: PretrainedConfig) -> int:
    """Attention heads of a layer: the first, where they differ by layer; 0 without attention."""
    first_layer = config.per_layer_config[0] if getattr(config, "per_layer_config", None) else config
    return int(getattr(first_layer, "num_attention_heads", 0))


def first_position(config: PretrainedConfig) -> int:
    """The number of a text's first position: 0, or that after the padding id."""
    if config.model_type not in POSITIONS_AFTER_PADDING:
        return 0
    padding = getattr(config, "pad_token_id", None)
    return (1 if padding is None else int(padding)) + 1


def auto_class_of(model_type: str, kind: Kind, class_name: str) -> AutoClass:
    """The class that loads such a model."""
    auto: AutoClass = AutoModelForCausalLM
    if kind == "masked":
        auto = AutoModelForMaskedLM
    elif MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model_type) != class_name:
        auto = AutoModelForImageTextToText
    return auto


def attention_of(class_name: str) -> str:
    """Which attention code runs: torch's fused one where the model has it."""
    return "sdpa" if getattr(transformers, class_name)._supports_sdpa else "eager"


def _count(config: PretrainedConfig, kind: Kind, class_name: str) -> tuple[int, int]:
    """Numbers of the model: as parameters, and as its files may hold them."""
    model = _on_meta(config, kind, class_name)
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    masks = int(config.num_hidden_layers) * context_of(config) ** 2 if config.model_type in STORED_MASKS else 0
    return (
        sum(parameter.numel() for parameter in model.parameters()),
        sum(tensor.numel() for _, tensor in tensors) + masks,
    )


def build_empty(config: PretrainedConfig, architecture: Architecture) -> PreTrainedModel:
    """The model that `architecture` describes, on the meta device: without any weights."""
    if config.model_type in TEXT_ALONE:
        config = config.get_text_config(decoder=True)
    return _on_meta(config, architecture.kind, architecture.class_name)


def _on_meta(config: PretrainedConfig, kind: Kind, class_name: str) -> PreTrainedModel:
    # The attention is named because a configuration may otherwise name a repository of compiled kernels to fetch; the
    # type because transformers makes it the default of the whole process meanwhile, of threads that compute as well.
    options = {"attn_implementation": attention_of(class_name), "dtype": torch.float32}
    with torch.device("meta"):
        model: PreTrainedModel = auto_class_of(config.model_type, kind, class_name).from_config(config, **options)
    return model
