"""Randomly initialised classifiers in folders, and a checkpoint as Detoxify's training code saves them."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from scoring.language_models import BUNDLED

CONTEXT = 48
CLASSES = ["toxicity", "severe_toxicity", "obscene", "identity_attack", "insult", "threat", "sexual_explicit"]
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
BASE = {"vocab_size": 30522, "max_position_embeddings": 512, "initializer_range": 0.04}  # the rest as BERT-base
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def words_tokenizer() -> PreTrainedTokenizerBase:
    """A tokenizer of whole words, as BERT's: texts have as many tokens as with the published models, or a few more."""
    return AutoTokenizer.from_pretrained(BUNDLED / "plumb-bert-l2-h128", model_max_length=512)


def tokenizer() -> PreTrainedTokenizerFast:
    """Word pieces of one to three letters, and [CLS] ... [SEP] around every text."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789'.,!?-"
    pieces = [*SPECIAL.values(), "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += ["the", "and", "a" * 2, "##ing", "##ed", "##er", "you", "are", "all"]
    made = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(token, pieces.index(token)) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=CONTEXT, **SPECIAL)


def bert(
    sizes: dict[str, float] = TINY, *, outputs: int = 3, seed: int = 0, **settings: object
) -> BertForSequenceClassification:
    """A classifier whose weights are wide enough for its scores to differ from text to text."""
    torch.manual_seed(seed)
    lengths = {"vocab_size": len(tokenizer()), "max_position_embeddings": CONTEXT, "initializer_range": 0.15}
    labels = {} if "id2label" in settings else {"num_labels": outputs}
    config = BertConfig(**{**lengths, "pad_token_id": 0, **labels, **sizes, **settings})
    return BertForSequenceClassification(config).eval()


def save_classifier(folder: Path, **settings: object) -> Path:
    """Save a classifier and its tokenizer to `folder`, which is returned."""
    bert(**settings).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def save_detoxify(
    folder: Path, model: BertForSequenceClassification, model_type: str | None = None
) -> tuple[Path, Path]:
    """Save `model` as a checkpoint, with the configuration folder that goes with it; both paths are returned.

    `model_type` is the name in the checkpoint, which the Detoxify class looks up; None is the configuration folder.
    """
    config_folder = folder / "config"
    model.config.save_pretrained(config_folder)
    base = model.config.vocab_size == BASE["vocab_size"]
    (words_tokenizer() if base else tokenizer()).save_pretrained(config_folder)
    checkpoint = folder / "detoxify.ckpt"
    arch = {
        "model_type": model_type or str(config_folder),
        "model_name": "BertForSequenceClassification",
        "tokenizer_name": "BertTokenizer",
        "num_classes": model.config.num_labels,
    }
    torch.save(
        {
            "config": {"dataset": {"args": {"classes": CLASSES}}, "arch": {"args": arch}},
            "state_dict": model.state_dict(),
        },
        checkpoint,
    )
    return checkpoint, config_folder
