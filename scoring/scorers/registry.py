"""Scorers by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from scoring.scorers.base import Scorer
from scoring.scorers.lexicon import LexiconScorer, find_lexicon, read_lexicon
from scoring.scorers.perspective import PerspectiveScorer
from scoring.scorers.profanity import ProfanityScorer

CLASSIFIER = "classifier:"  # what names of classifiers of transformers begin with
DETOXIFY_VARIANTS = ("original", "unbiased", "multilingual", "original-small", "unbiased-small")


class UnknownScorer(ValueError):
    """No scorer has that name. The message lists those there are."""


class CannotLoadScorers(ValueError):
    """A module that was named for its scorers has none, or none that can be taken; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ScorerDeclaration:
    """`name` as people write it, capitals standing for a choice of theirs; what it is; whether texts leave the machine.

    `build` takes what stands for the capitals ("" where there are none) and the scorer's options. `limits`: what its
    scores do not tell, a sentence or two each.
    """

    name: str
    title: str
    remote: bool
    build: Callable[..., Scorer]
    limits: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """What names of the scorer begin with: all of the name, or up to its colon."""
        head, colon, _ = self.name.partition(":")
        return head + colon

    def covers(self, name: str) -> bool:
        """Whether `name` is one of the scorer's."""
        choice = name.removeprefix(self.prefix)
        return name == self.prefix + choice and bool(choice) == self.prefix.endswith(":")


def _lexicon(name: str, *, folder: Path | None = None) -> Scorer:
    return LexiconScorer(read_lexicon(find_lexicon(name, folder)))


# Both need torch, which is imported when the first of them is built: pages that name scorers are shown without it.
def _classifier(ref: str, **options: Any) -> Scorer:
    scorer: Scorer = import_module("scoring.scorers.classifier").ClassifierScorer(ref, **options)
    return scorer


def _detoxify(variant: str, _choice: str, **options: Any) -> Scorer:
    scorer: Scorer = import_module("scoring.scorers.detoxify").DetoxifyScorer(variant, **options)
    return scorer


SCORERS = [
    *(
        ScorerDeclaration(
            f"detoxify-{variant}",
            f"Detoxify, {variant}",
            False,
            partial(_detoxify, variant),
            (
                "Detoxify learnt from comments on news sites and Wikipedia, as crowds labelled them: what those crowds "
                "took for toxic is what it finds. Its variants learnt from different comments and do not compare.",
            ),
        )
        for variant in DETOXIFY_VARIANTS
    ),
    ScorerDeclaration(
        f"{CLASSIFIER}HUB_ID_OR_FOLDER",
        "Text classifier of transformers",
        False,
        _classifier,
        ("Labels mean what the classifier's authors meant by them: read its model card before its numbers.",),
    ),
    ScorerDeclaration(
        "perspective",
        "Perspective",
        True,
        lambda _choice, key="", **options: PerspectiveScorer(key, **options),
        (
            "Perspective is a service that changes without notice, and nobody outside can look into it: what it said "
            "of a text cannot be had again once it says otherwise. It ends with 2026.",
        ),
    ),
    ScorerDeclaration("lexicon:NAME", "Lexicon", False, _lexicon),
    ScorerDeclaration(
        "profanity",
        "Packaged profanity model",
        False,
        lambda _choice: ProfanityScorer(),
        ("It is a linear model of words: it sees rude words rather than contempt, and knows no context.",),
    ),
]


def load_scorers(modules: Sequence[str]) -> None:
    """Import `modules` and add the scorers that each declares in its own SCORERS, once.

    Raises CannotLoadScorers where a module is not there or declares none, or where the name of one is taken.
    """
    for module in modules:
        try:
            found = import_module(module).SCORERS
        except ImportError as error:
            raise CannotLoadScorers(f"{module!r} cannot be imported ({error}): install it or set PYTHONPATH") from error
        except AttributeError as error:
            raise CannotLoadScorers(f"{module!r} declares no scorer: give it SCORERS, of ScorerDeclaration") from error
        for declared in found:
            if declared in SCORERS:
                continue
            if find_declaration(declared.name):
                raise CannotLoadScorers(f"{module!r}: there is a scorer {declared.name!r} already: choose another name")
            SCORERS.append(declared)


def find_declaration(name: str) -> ScorerDeclaration | None:
    """What is declared of the scorer called `name`; None where there is none of that name."""
    return next((declared for declared in SCORERS if declared.covers(name)), None)


def is_scorer(name: str) -> bool:
    """Whether `get_scorer` knows the name."""
    return find_declaration(name) is not None


def get_scorer(name: str, **options: Any) -> Scorer:
    """The scorer called `name`, ready to score; `options` are those of its class (`folder` of lexicons, for one).

    Raises UnknownScorer, listing the names; ScorerUnavailable, with what to do, where it cannot be had here;
    LexiconError for a lexicon that is not there or not right; ValueError for a wrong option.
    """
    for declared in SCORERS:
        if declared.covers(name):
            return declared.build(name.removeprefix(declared.prefix), **options)
    raise UnknownScorer(f"there is no scorer {name!r}: use {', '.join(declared.name for declared in SCORERS)}")
