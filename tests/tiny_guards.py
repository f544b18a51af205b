"""Guard models of random weights, with a chat template of their own, and how they are declared."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from scoring.scorers.guards import GuardDeclaration, read_family
from tests.scoring.language_models import tiny

CONTEXT = 160
SPECIAL = ["<|start|>", "<|end|>", "<|pad|>"]
TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content | trim }}<|end|>{% endfor %}"
    "{% if guideline %}<|start|>rule\n{{ guideline }}<|end|>{% endif %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
FAMILY = {
    "title": "Tiny guard",
    "models": {"tiny": "org/tiny-guard"},
    "licence": "CC0",
    "languages": ["en"],
    "source": "https://example.org",
    "precision": "float32",
    "messages": [{"role": "user", "content": "Judge: {text}"}],
    "limits": ["Its weights are random."],
    "questions": [
        {
            "opening": "Safety:",
            "verdicts": [" Safe", " Unsafe", " Disputed"],
            "attributes": {"unsafe": [" Unsafe"], "unsafe_or_disputed": [" Unsafe", " Disputed"]},
            "categories": {
                "after": " Unsafe",
                "opening": "\nCategories:",
                "tokens": {"violent": " Violent", "hate": " Hate"},
            },
        },
        {
            "options": {"guideline": "No rudeness."},
            "opening": "Rude:",
            "verdicts": [" yes", " no"],
            "attributes": {"rude": [" yes"]},
        },
    ],
}


def tiny_guard(**changes: object) -> GuardDeclaration:
    """The guard that FAMILY declares, with other values in their place."""
    return read_family({**FAMILY, **changes})[0]


def guard_tokenizer(words: Sequence[str] = (), special: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer whose merges know the words of the prompts, and `words`; `special` are tokens too."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = ["Safety: Safe Unsafe Disputed\nCategories: Violent Hate Rude: yes no Judge: user assistant the and you"]
    trainer = trainers.BpeTrainer(
        vocab_size=420 if not words else 900,
        special_tokens=[*SPECIAL, *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *words] * 4, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|start|>", eos_token="<|end|>", pad_token="<|pad|>"
    )


def save_guard(
    folder: Path,
    *,
    template: str = TEMPLATE,
    model_type: str = "llama",
    seed: int = 0,
    context: int = CONTEXT,
    words: Sequence[str] = (),
    special: Sequence[str] = (),
) -> Path:
    """Save a guard of random weights to `folder`, which is returned; it has no template where that is ""."""
    tokenizer = guard_tokenizer(words, special)
    if template:
        tokenizer.chat_template = template
    torch.manual_seed(seed)
    config = tiny.config(
        model_type,
        vocab_size=len(tokenizer),
        max_position_embeddings=context,
        initializer_range=0.6,
        **{"pad_token_id": 2, "bos_token_id": 0, "eos_token_id": 1},
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
