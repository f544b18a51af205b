"""Stereotype pairs, triples and total effects against the published codes' way: one masked copy, or text, a call."""

from functools import partial

import torch

from scoring.evaluation_sets.pairs import SentencePair, pairs_table, read_crows_pairs
from scoring.evaluation_sets.pronouns import ContinuationPair, pronoun_pairs_table, read_winobias
from scoring.evaluation_sets.triples import ASSOCIATIONS, INTRASENTENCE, Triple, read_stereoset, triples_table
from scoring.language_models import BUNDLED, LoadedModel
from scoring.likelihood import LikelihoodSettings, Passage, token_log_likelihoods
from tests.bench.likelihood import bert, loaded, row
from tests.bench.timing import seconds
from tests.data import CROWS_PAIRS, STEREOSET, WINOBIAS

PAIRS, TRIPLES, EFFECTS = 40, 120, 40
PREPEND = LikelihoodSettings(bos="prepend")
PROFESSION = "gardener"


def crows_pairs() -> list[str]:
    """The sentences of the first pairs of CrowS-Pairs, else of made ones."""
    own_pairs = [
        SentencePair(f"{n}", f"The old gardener met {n} guests.", f"The young gardener met {n} guests.", "age")
        for n in range(PAIRS)
    ]
    pairs = read_crows_pairs(CROWS_PAIRS) if CROWS_PAIRS.exists() else own_pairs
    return pairs_table(pairs[:PAIRS])["text"].to_pylist()


def blanks() -> list[Passage]:
    """The filled blanks of the first triples of StereoSet, else of made ones."""
    own_triples = [
        Triple(f"{n}", INTRASENTENCE, PROFESSION, "profession", f"The gardener was BLANK {n} times.", ends, ends)
        for n in range(TRIPLES)
        for ends in [{name: f"The gardener was {name} {n} times." for name in ASSOCIATIONS}]
    ]
    triples = read_stereoset(STEREOSET) if STEREOSET.exists() else own_triples
    filled = [triple for triple in triples if triple.task == INTRASENTENCE][:TRIPLES]
    return [Passage(item["text"], item["start"], item["end"]) for item in triples_table(filled).to_pylist()]


def continuations() -> list[Passage]:
    """The continuations of the first pairs of WinoBias, else of made ones."""
    own_pairs = [
        ContinuationPair(
            f"{n}",
            f"The carpenter met {n} nurses because",
            {"female": "she", "male": "he"},
            {"first": "was glad.", "second": "helped a lot."},
            {"dev": "second"},
        )
        for n in range(EFFECTS)
    ]
    pairs = read_winobias(WINOBIAS) if WINOBIAS.exists() else own_pairs
    return [
        Passage(item["text"], item["start"], item["end"]) for item in pronoun_pairs_table(pairs[:EFFECTS]).to_pylist()
    ]


@torch.inference_mode()
def one_mask_a_call(model: LoadedModel, passages: list[Passage]) -> None:
    """Each token of a passage masked alone, one call each, through the softmax of the full vocabulary."""
    for passage in passages:
        encoding = model.tokenizer(passage.text, return_tensors="pt", return_offsets_mapping=True)
        first, last = passage.token_range(encoding["offset_mapping"][0].tolist())
        for place in range(first, last):
            ids = encoding["input_ids"].clone()
            ids[0, place] = model.tokenizer.mask_token_id
            model.model(input_ids=ids).logits[0].softmax(-1)[place, encoding["input_ids"][0, place]].item()


@torch.inference_mode()
def one_text_a_call(model: LoadedModel, passages: list[Passage]) -> None:
    """One call a text through the softmax of the full vocabulary, then each token of the passage looked up."""
    for passage in passages:
        encoding = model.tokenizer(passage.text, return_tensors="pt", return_offsets_mapping=True)
        ids = encoding["input_ids"]
        first, last = passage.token_range(encoding["offset_mapping"][0].tolist())
        log_probabilities = model.model(input_ids=ids).logits[0].log_softmax(-1)
        [log_probabilities[place - 1, ids[0, place]].item() for place in range(first, last)]


def ours(model: LoadedModel, passages: list[Passage]) -> None:
    """This engine."""
    list(token_log_likelihoods(model, passages, PREPEND))


def stereotypes_table() -> None:
    """Print the table."""
    masked, causal = bert(4, 256), loaded(BUNDLED / "plumb-gpt2-l4-h256")
    for title, model, passages, usual in (
        (
            f"CrowS-Pairs, BERT L4 H256, {PAIRS} pairs",
            masked,
            [Passage(text) for text in crows_pairs()],
            one_mask_a_call,
        ),
        (f"StereoSet, BERT L4 H256, {TRIPLES} triples", masked, blanks(), one_mask_a_call),
        (f"WinoBias, BERT L4 H256, {EFFECTS} pairs", masked, continuations(), one_mask_a_call),
        (f"WinoBias, GPT-2 L4 H256, {EFFECTS} pairs", causal, continuations(), one_text_a_call),
    ):
        ours(model, passages[:4])
        duration = seconds(partial(ours, model, passages))
        row(title, duration, {"one a call, full vocabulary": seconds(partial(usual, model, passages), 1)}, None)
