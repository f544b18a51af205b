"""Scorers by name."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from scoring.refusals import Missing, Refused
from scoring.scorers.base import Scorer, ScorerUnavailable
from scoring.scorers.classifier_scorers import CLASSIFIERS, convert_files
from scoring.scorers.declarations import ScorerDeclaration, Surroundings
from scoring.scorers.ensemble import declare_ensembles
from scoring.scorers.guard_scorers import GUARDS
from scoring.scorers.judge import JUDGES
from scoring.scorers.lexicon import LexiconError, LexiconScorer, find_lexicon, read_lexicon
from scoring.scorers.profanity import ProfanityScorer
from scoring.scorers.services import SERVICE_SCORERS

LEXICON = "lexicon:"  # what names of such scorers begin with
DETOXIFY_VARIANTS = ("original", "unbiased", "multilingual", "original-small", "unbiased-small")


class UnknownScorer(Missing):
    """No scorer has that name. The message lists them."""


def _lexicon(name: str, *, folder: Path | None = None, own: Path | None = None) -> Scorer:
    """The lexicon in the folder `own`, if that is there; else the one called `name`, in `folder` or of Plumbline."""
    return LexiconScorer(read_lexicon(own if own and own.is_dir() else find_lexicon(name, folder)))


def _lexicon_options(surroundings: Surroundings) -> dict[str, Any]:
    return {"own": surroundings.folder}


def _lexicon_problem(name: str, surroundings: Surroundings) -> ScorerUnavailable | None:
    try:
        find_lexicon(name, surroundings.folder.parent)
    except LexiconError as error:
        return None if surroundings.is_stored() else ScorerUnavailable(str(error))
    return None


def _detoxify(variant: str, _choice: str, **options: Any) -> Scorer:
    scorer: Scorer = import_module("scoring.scorers.detoxify").DetoxifyScorer(variant, **options)
    return scorer


def _detoxify_options(surroundings: Surroundings) -> dict[str, Any]:
    folder = surroundings.folder if surroundings.folder.is_dir() else None
    return {"folder": folder, "may_fetch": surroundings.may_fetch}


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
            options=_detoxify_options,
            convert=partial(convert_files, "convert_detoxify"),
        )
        for variant in DETOXIFY_VARIANTS
    ),
    *CLASSIFIERS,
    *SERVICE_SCORERS,
    ScorerDeclaration(
        f"{LEXICON}NAME",
        "Lexicon",
        False,
        _lexicon,
        options=_lexicon_options,
        problem=_lexicon_problem,
        quick=True,
        exact=True,
        import_command="import_lexicon",
    ),
    ScorerDeclaration(
        "profanity",
        "Packaged profanity model",
        False,
        lambda _choice: ProfanityScorer(),
        ("It is a linear model of words: it sees rude words rather than contempt, and knows no context.",),
    ),
    *GUARDS,
    JUDGES,
]


def load_scorers(modules: Sequence[str]) -> None:
    """Import `modules` and add the scorers that each declares in its own SCORERS, once.

    Raises Refused where a module is not there or declares none, or where the name of one is taken.
    """
    for module in modules:
        try:
            declarations = import_module(module).SCORERS
        except ImportError as error:
            raise Refused(f"{module!r} cannot be imported ({error}): install it or set PYTHONPATH") from error
        except AttributeError as error:
            raise Refused(f"{module!r} declares no scorer: give it SCORERS, of ScorerDeclaration") from error
        for declaration in declarations:
            if declaration in SCORERS:
                continue
            if find_declaration(declaration.name):
                raise Refused(f"{module!r}: there is a scorer {declaration.name!r} already: choose another name")
            SCORERS.append(declaration)


def find_declaration(name: str) -> ScorerDeclaration | None:
    """What is declared of the scorer called `name`; None where there is none of that name."""
    return next((declaration for declaration in SCORERS if declaration.covers(name)), None)


SCORERS.append(declare_ensembles(find_declaration))


def is_scorer(name: str) -> bool:
    """Whether `get_scorer` knows the name."""
    return find_declaration(name) is not None


def declaration_of(name: str) -> ScorerDeclaration:
    """What is declared of the scorer called `name`. Raises UnknownScorer, listing the names."""
    declaration = find_declaration(name)
    if declaration is None:
        raise UnknownScorer(f"there is no scorer {name!r}: use {', '.join(scorer.name for scorer in SCORERS)}")
    return declaration


def get_scorer(name: str, **options: Any) -> Scorer:
    """The scorer called `name`, ready to score; `options` are those of its class (`folder` of lexicons, for one).

    Raises UnknownScorer, listing the names; ScorerUnavailable, with what to do, where it cannot be had here;
    LexiconError for a lexicon that is not there or not right; ValueError for a wrong option.
    """
    declaration = declaration_of(name)
    return declaration.build(declaration.choice(name), **options)
