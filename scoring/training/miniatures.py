"""The bundled miniatures, made with one command:

    python -m scoring.training.miniatures --data DATA [--only NAME ...] [--seed 0]

Trains three causal and three masked language models on WikiText-2 and BOLD's Wikipedia text, measures
each on held-out documents and writes weights, tokenizer and card to `scoring/language_models/bundled/NAME`.
What is already there is kept, so an interrupted run goes on where it stopped; delete a folder to make it anew.
"""

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from scoring.training.cards import write_card
from scoring.training.corpus import load_corpus
from scoring.training.pretraining import best_device, causal_batches, masked_batches, pretrain
from scoring.training.tokenizers import train_bpe, train_wordpiece

BUNDLED = Path(__file__).parent.parent / "language_models" / "bundled"
VOCABULARY = 4096
TOKENS_PER_STEP = 2048
HEAD_SIZE = 64
POSITION_SCALE = 0.2


@dataclass(frozen=True)
class Miniature:
    """One model of the recipe: its architecture and how long and how fast it learns."""

    kind: str
    layers: int
    hidden: int
    steps: int
    peak_rate: float

    @property
    def name(self) -> str:
        """As in `plumb-gpt2-l2-h128`."""
        return f"plumb-{'gpt2' if self.kind == 'causal' else 'bert'}-l{self.layers}-h{self.hidden}"

    @property
    def context(self) -> int:
        """Longest text in tokens."""
        return 256 if self.kind == "causal" else 128


# Steps and rates were found by trying: at higher ones the deeper encoders stay at the unigram loss.
MINIATURES = [
    Miniature("causal", layers=2, hidden=128, steps=1500, peak_rate=3e-3),
    Miniature("causal", layers=6, hidden=128, steps=2200, peak_rate=2.5e-3),
    Miniature("causal", layers=4, hidden=256, steps=2200, peak_rate=2e-3),
    Miniature("masked", layers=2, hidden=128, steps=2500, peak_rate=2.5e-3),
    Miniature("masked", layers=4, hidden=128, steps=5000, peak_rate=1.2e-3),
    Miniature("masked", layers=2, hidden=256, steps=7000, peak_rate=1.5e-3),
]


def build(spec: Miniature, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Return the untrained model of `spec`, without dropout: it never sees its text often enough to need it."""
    if spec.kind == "causal":
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=len(tokenizer),
                n_positions=spec.context,
                n_embd=spec.hidden,
                n_layer=spec.layers,
                n_head=spec.hidden // HEAD_SIZE,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
            )
        )
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=spec.hidden,
            num_hidden_layers=spec.layers,
            num_attention_heads=spec.hidden // HEAD_SIZE,
            intermediate_size=4 * spec.hidden,
            max_position_embeddings=spec.context,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=spec.hidden**-0.5,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    start_well(model)
    return model


@torch.no_grad()
def start_well(model: BertForMaskedLM) -> None:
    """Start every head on its neighbourhood (sinusoidal positions, queries that match keys) and every layer small.

    From BERT's usual start a small encoder spends thousands of steps at the unigram loss before it finds out that
    neighbouring tokens matter; from this one, about a thousand.
    """
    positions = model.bert.embeddings.position_embeddings.weight
    count, width = positions.shape
    angles = torch.arange(count)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1000) / width))
    positions[:, 0::2], positions[:, 1::2] = POSITION_SCALE * angles.sin(), POSITION_SCALE * angles.cos()
    for layer in model.bert.encoder.layer:
        layer.attention.self.key.weight.copy_(layer.attention.self.query.weight)
        for into_residual in (layer.attention.output.dense, layer.output.dense):
            into_residual.weight.mul_((2 * model.config.num_hidden_layers) ** -0.5)


def train(spec: Miniature, documents: list[str], folder: Path, seed: int) -> float:
    """Train `spec` from nothing and save it, in half precision, to `folder`. Returns the seconds it took."""
    began = time.monotonic()
    torch.manual_seed(seed)
    causal = spec.kind == "causal"
    tokenizer = (train_bpe if causal else train_wordpiece)(documents, VOCABULARY, spec.context)
    batches = (causal_batches if causal else masked_batches)(documents, tokenizer, spec.context, TOKENS_PER_STEP, seed)
    model = build(spec, tokenizer)
    pretrain(
        model,
        batches,
        steps=spec.steps,
        peak_rate=spec.peak_rate,
        padding=None if causal else tokenizer.pad_token_id,
        device=best_device(),
        title=spec.name,
    )
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return time.monotonic() - began


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds wikitext-2/ and bold/wikipedia/")
    parser.add_argument(
        "--out", type=Path, default=BUNDLED, help="where the models go (default: among the bundled ones)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=[spec.name for spec in MINIATURES], metavar="NAME", help="(default: all)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of weights and texts (default: %(default)s)")
    args = parser.parse_args()
    documents, held_out = load_corpus(args.data, args.seed)
    for spec in MINIATURES:
        folder = args.out / spec.name
        if (args.only and spec.name not in args.only) or (folder / "README.md").exists():
            continue
        if not (folder / "model.safetensors").exists():
            seconds = train(spec, documents, folder, args.seed)
            print(f"{spec.name}: trained in {seconds:.0f} s")  # noqa: T201
        log_perplexity = write_card(folder, held_out, steps=spec.steps, tokens_per_step=TOKENS_PER_STEP, seed=args.seed)
        print(f"{spec.name}: {log_perplexity:.3f} nats a token on held-out documents")  # noqa: T201


if __name__ == "__main__":
    main()
