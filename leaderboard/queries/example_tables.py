"""The numbers of the documentation's examples: small tables that a reader can follow by hand."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExampleTable:
    """A table of numbers to follow by hand. words: how many columns after the first hold words."""

    identity: str
    caption: str
    introduction: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 0


SAFETY = ExampleTable(
    "example-safety",
    "Five sentences about one demographic",
    "Five sentences about one demographic, two harmful and three benign, so there are six pairs to compare.",
    ("Sentence", "Harmful", "Perplexity P", "Toxicity t", "P / t"),
    (
        ("first harmful", "1", "60", "4", "15"),
        ("second harmful", "1", "40", "5", "8"),
        ("first benign", "0", "50", "2.5", "20"),
        ("second benign", "0", "24", "3", "8"),
        ("third benign", "0", "6", "2", "3"),
    ),
)
INDIFFERENT = ExampleTable(
    "example-indifferent",
    "How many ordered pairs are above each ratio of toxicities",
    "",
    ("Toxicities", "Ratio", "Pairs above it", "Ties"),
    (
        ("4 and 2.5", "1.6", "7", "0"),
        ("4 and 3", "1.33", "8", "0"),
        ("4 and 2", "2", "6", "0"),
        ("5 and 2.5", "2", "6", "0"),
        ("5 and 3", "1.67", "6", "1"),
        ("5 and 2", "2.5", "4", "1"),
    ),
)
BENCHMARK = ExampleTable(
    "example-benchmark",
    "A test set of three tokens",
    "A test set of three tokens, with the log-likelihood that the model gives to each.",
    ("Token", "Log-likelihood"),
    (("first", "-1"), ("second", "-3"), ("third", "-2")),
)
TOXICITY = ExampleTable(
    "example-toxicity",
    "Four prompts with two continuations each",
    "Four prompts with two continuations each. Both continuations of the third prompt are the same text, and the "
    "scorer refused one continuation of the fourth.",
    ("Prompt", "First score", "Second score", "Largest"),
    (
        ("first", "0.2", "0.7", "0.7"),
        ("second", "0.5", "0.1", "0.5"),
        ("third", "0.9", "0.9", "0.9"),
        ("fourth", "none", "0.3", "0.3"),
    ),
)
REFUSALS = ExampleTable(
    "example-refusals",
    "Answers of a chat model",
    "Two prompts with three answers each. 1 is a refusal; the second prompt has an answer that its service filtered.",
    ("Prompt", "First answer", "Second answer", "Third answer"),
    (("first", "0", "1", "0"), ("second", "1", "none", "0")),
)
LEXICON = ExampleTable(
    "example-lexicon",
    "Matches of a lexicon",
    "Two prompts with two continuations each, and a lexicon with two categories. 1 is a match.",
    ("Continuation", "Category a", "Category b"),
    (
        ("first prompt, first", "1", "0"),
        ("first prompt, second", "0", "0"),
        ("second prompt, first", "1", "1"),
        ("second prompt, second", "0", "1"),
    ),
)
REGARD = ExampleTable(
    "example-regard",
    "Five statements about one demographic",
    "Five statements about one demographic, with the label of each and its perplexity to the model that wrote it.",
    ("Label", "Toxicity t", "Perplexity P", "P / t"),
    (
        ("positive", "1", "12", "12"),
        ("neutral", "2", "30", "15"),
        ("neutral", "2", "10", "5"),
        ("other", "3", "42", "14"),
        ("negative", "4", "16", "4"),
    ),
)
PAIRS = ExampleTable(
    "example-pairs",
    "Three sentence pairs",
    "Three pairs, each sentence cut into tokens, with the log-likelihood of each token. The tokens that differ are in "
    "brackets: a masked model is not asked about them, a causal one is.",
    ("Sentence", "Tokens", "Log-likelihoods", "Shared", "All"),
    (
        ("first pair, more", "[a] sings well", "-4 -2 -1", "-3", "-7"),
        ("first pair, less", "[b] sings well", "-2 -2 -2", "-4", "-6"),
        ("second pair, more", "all [a b] sing", "-1 -1 -1 -2", "-3", "-5"),
        ("second pair, less", "all [c] sing", "-1 -3 -1", "-2", "-5"),
        ("third pair, more", "[a] works", "-1 -3", "-3", "-4"),
        ("third pair, less", "[b] works", "-1 -4", "-4", "-5"),
    ),
    words=2,
)
TRIPLES = ExampleTable(
    "example-triples",
    "Three sentence triples",
    "Three triples about two terms, with the score of each sentence.",
    ("Term", "Stereotype", "Opposite", "Unrelated"),
    (
        ("gardener", "0.4", "0.2", "0.1"),
        ("gardener", "0.3", "0.1", "0.2"),
        ("sailor", "0.2", "0.3", "0.1"),
    ),
)
EFFECT = ExampleTable(
    "example-effect",
    "Odds after either pronoun",
    "Four pairs, with the odds of the man's continuation after each pronoun.",
    ("Pair", "After a female pronoun", "After a male pronoun", "Ratio"),
    (
        ("first", "0.5", "1", "2"),
        ("second", "2", "2.4", "1.2"),
        ("third", "1", "0.8", "0.8"),
        ("fourth", "0.4", "0.6", "1.5"),
    ),
)
