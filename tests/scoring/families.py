"""A tiny, randomly initialised model of the real class of each architecture family, with a tokenizer of its kind."""

import atexit
import string
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, PreTrainedTokenizerFast

from scoring.language_models import LoadedModel, inspect, load, resolve
from scoring.language_models.architecture import auto_class_of, classify

# What tokenizers learn from: enough for word pieces of several letters and words of several pieces.
CORPUS = [
    "The river rises in the mountains and flows north to the sea, past towns and mills.",
    "She was elected to the council in 1987 and remembered for unusually patient negotiations.",
    "Rain fell on the fields; nobody minded, for the harvest was already in.",
    "An unusually long sentence, with many clauses, each of which adds a little, goes on and then stops.",
    string.ascii_letters + string.digits + string.punctuation,
]
VOCABULARY = 240
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 96,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96}


@dataclass(frozen=True)
class Family:
    """A line of models: its type in transformers, the style of its tokenizer, and a small configuration."""

    model_type: str
    tokenizer: str
    config: dict

    def is_masked(self) -> bool:
        return classify(AutoConfig.for_model(self.model_type, **self.config))[0] == "masked"


# Those of Hosseini et al. 2023, Table 2, then today's decoders.
FAMILIES = {
    "BERT": Family("bert", "wordpiece", SIZES),
    "DistilBERT": Family(
        "distilbert",
        "wordpiece",
        {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 96},
    ),
    "MobileBERT": Family(
        "mobilebert",
        "wordpiece",
        {**SIZES, "embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 2},
    ),
    "RoBERTa": Family("roberta", "bytes", {**SIZES, "max_position_embeddings": 98}),
    "ELECTRA generator": Family("electra", "wordpiece", {**SIZES, "embedding_size": 24}),
    "ALBERT": Family("albert", "unigram", {**SIZES, "embedding_size": 16}),
    "GPT-2": Family("gpt2", "bytes", GPT2),
    "XLNet": Family("xlnet", "unigram", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "Llama": Family("llama", "metaspace", GROUPED),
    "Qwen2": Family("qwen2", "bytes", GROUPED),
    "Qwen3": Family("qwen3", "bytes", {**GROUPED, "head_dim": 8}),
    "GPT-NeoX": Family("gpt_neox", "bytes", SIZES),
    "OPT": Family("opt", "bytes", {**SIZES, "ffn_dim": 64, "word_embed_proj_dim": 24}),
    "Gemma": Family("gemma", "metaspace", {**GROUPED, "head_dim": 8}),
    "Gemma 2": Family(
        "gemma2", "metaspace", {**GROUPED, "head_dim": 8, "sliding_window": 16, "final_logit_softcapping": 2.0}
    ),
    "Gemma 3": Family("gemma3_text", "metaspace", {**GROUPED, "head_dim": 8, "sliding_window": 16}),
    "DeBERTa": Family("deberta-v2", "unigram", SIZES),
    "ModernBERT": Family("modernbert", "bytes", {**SIZES, "local_attention": 16, "cls_token_id": 0, "sep_token_id": 2}),
    "Mistral": Family("mistral", "metaspace", {**GROUPED, "sliding_window": 16}),
}


@cache
def tiny_folder(name: str) -> Path:
    """The folder of a family's tiny model, saved as its own class."""
    scratch = TemporaryDirectory(prefix="plumbline-family-")
    atexit.register(scratch.cleanup)
    folder = Path(scratch.name)
    family = FAMILIES[name]
    tokenizer = TOKENIZERS[family.tokenizer]()
    tokenizer.save_pretrained(folder)
    config = AutoConfig.for_model(
        family.model_type,
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **family.config,
    )
    architecture = inspect(config)
    torch.manual_seed(1)
    model = auto_class_of(architecture.model_type, architecture.kind, architecture.class_name).from_config(config)
    with torch.no_grad():  # the usual start is so small that all tokens are about as likely; errors would not show
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    model.save_pretrained(folder)
    return folder


@cache
def tiny(name: str) -> LoadedModel:
    """The tiny model of a family, resolved and loaded as any folder is."""
    found = resolve(str(tiny_folder(name)))
    return load(found.source, found.location, found.revision)


def _wordpiece() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=special))
    return _framed(tokenizer, "[CLS]", "[SEP]", mask_token="[MASK]", pad_token="[PAD]", unk_token="[UNK]")


def _bytes() -> PreTrainedTokenizerFast:
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]  # RoBERTa's order: positions are numbered from the padding id
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY + 160, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _framed(tokenizer, "<s>", "</s>", mask_token="<mask>", pad_token="<pad>", unk_token="<unk>")


def _metaspace() -> PreTrainedTokenizerFast:
    special = ["<pad>", "</s>", "<s>", "<unk>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special))
    # As Llama's and Gemma's, it puts <s> first by itself: ours must not come twice.
    return _framed(tokenizer, "<s>", None, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")


def _unigram() -> PreTrainedTokenizerFast:
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=VOCABULARY, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _framed(
        tokenizer, "[CLS]", "[SEP]", mask_token="[MASK]", pad_token="<pad>", unk_token="<unk>", bos_token="<s>"
    )


def _framed(tokenizer: Tokenizer, before: str, after: str | None, **special: str) -> PreTrainedTokenizerFast:
    frame = [before, "$A", *([after] if after else [])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=" ".join(frame),
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (before, after) if token],
    )
    roles = {"bos_token": before, "eos_token": after or before, "cls_token": before, "sep_token": after or before}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{role: AddedToken(token, special=True) for role, token in {**roles, **special}.items()},
    )


TOKENIZERS = {"wordpiece": _wordpiece, "bytes": _bytes, "metaspace": _metaspace, "unigram": _unigram}
