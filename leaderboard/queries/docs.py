"""What the documentation reads from the board's own declarations: commands, settings, formulas, the example."""

import inspect
import re
from argparse import Action, _SubParsersAction
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from scoring.language_models import package, tokenizer_report, tokenizer_rules
from scoring.language_models.tokenizer_patterns import KEPT, PATTERNS
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.kinds import Formula
from scoring.metrics.measures import Measure
from scoring.scorers import example

APP = "leaderboard"
SETTINGS_FILE = settings.BASE_DIR / ".env.example"
# Measures that one definition explains together, by its name; every other measure has a definition of its own.
TOGETHER = {
    "log_perplexity": (
        "log_perplexity_harmful",
        "log_perplexity_harmful_sd",
        "log_perplexity_benign",
        "log_perplexity_benign_sd",
    ),
    "expected_max_toxicity": ("expected_max_toxicity", "expected_max_toxicity_sd"),
    "regard_safety_score": (
        "regard_safety_score",
        "regard_likelihood_auc",
        "regard_safety_excess",
        "regard_safety_indifferent",
    ),
}


@dataclass(frozen=True, slots=True)
class Argument:
    """What a command takes: as it is typed, in words, and whether it can be left out."""

    typed: str
    words: str
    optional: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `manage.py`, as it says of itself."""

    name: str
    words: str
    arguments: list[Argument]


@dataclass(frozen=True, slots=True)
class Setting:
    """One or more settings with one explanation: names, each with its default."""

    words: str
    values: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SettingsPart:
    """A part of the settings under a heading."""

    title: str
    settings: list[Setting]


@dataclass(frozen=True, slots=True)
class Definition:
    """One or more measures, and the template that defines them."""

    name: str
    measures: list[Measure]

    @property
    def title(self) -> str:
        """The measures by name."""
        return "; ".join(measure.label for measure in self.measures)

    @property
    def template(self) -> str:
        """Where their mathematics is."""
        return f"docs/measures/{self.name}.html"


@dataclass(frozen=True, slots=True)
class Chapter:
    """A formula with the definitions of its measures, in the order of its tables."""

    formula: Formula
    definitions: list[Definition]

    @property
    def anchor(self) -> str:
        """Where it stands on the page; a measure may have the formula's name."""
        return f"formula-{self.formula.name}"

    @property
    def example(self) -> str:
        """The template of numbers worked out by hand."""
        return f"docs/examples/{self.formula.name}.html"


@lru_cache(maxsize=1)
def commands() -> list[Command]:
    """Every command of the board, in alphabetical order, with what it takes beside what all of Django's commands do."""
    common = {action.dest for action in BaseCommand().create_parser("manage.py", "any")._actions}
    descriptions = []
    for name in sorted(name for name, app in get_commands().items() if app == APP):
        command = load_command_class(APP, name)
        actions = command.create_parser("manage.py", name)._actions
        arguments = [_argument(action) for action in actions if action.dest not in common]
        descriptions.append(Command(name, command.help, arguments))
    return descriptions


def _argument(action: Action) -> Argument:
    default = action.dest.upper() if action.option_strings else action.dest
    if isinstance(action.metavar, str):
        value = action.metavar
    else:
        value = "|".join(map(str, action.choices)) if action.choices and len(list(action.choices)) < 9 else default
    words = (action.help or "").replace("%(default)s", str(action.default))
    if isinstance(action, _SubParsersAction):
        forms = "; ".join(f"{form.dest}: {form.help}" for form in action._choices_actions)
        words = f"{forms}. What each takes is listed by `--help` after it"
    if not action.option_strings:
        return Argument(value, words, action.nargs in ("?", "*"))
    option = action.option_strings[-1]
    return Argument(option if action.nargs == 0 else f"{option} {value}", words, not action.required)


@lru_cache(maxsize=1)
def settings_parts() -> list[SettingsPart]:
    """Every setting with its default and explanation, as `.env.example` has them."""
    parts: list[SettingsPart] = []
    words: list[str] = []
    for line in SETTINGS_FILE.read_text(encoding="utf-8").splitlines():
        heading, value = re.fullmatch(r"# --- (.+) ---", line), re.fullmatch(r"#([A-Z][A-Z_]+)=(.*)", line)
        if heading:
            parts.append(SettingsPart(heading[1], []))
        elif value and words:
            parts[-1].settings.append(Setting(" ".join(words), [(value[1], value[2])]))
        elif value:
            parts[-1].settings[-1].values.append((value[1], value[2]))
        words = [*words, line.removeprefix("# ")] if line.startswith("# ") and not heading else []
    return parts


def chapters() -> list[Chapter]:
    """Every formula."""
    return [Chapter(formula, _definitions(formula)) for formula in FORMULAS.values()]


def _definitions(formula: Formula) -> list[Definition]:
    names = {key: name for name, keys in TOGETHER.items() for key in keys}
    measures_by_name: dict[str, list[Measure]] = {}
    for key, measure in formula.measures.items():
        measures_by_name.setdefault(names.get(key, key), []).append(measure)
    return [Definition(name, measures) for name, measures in measures_by_name.items()]


def example_source() -> str:
    """The example of a scorer, as it runs."""
    return inspect.getsource(example)


def protections() -> dict[str, Any]:
    """What the threat model quotes: files with their limits, reviewed parts of tokenizers, limits of reports."""
    return {
        "files": sorted(package.LIMITS.items()),
        "normalizers": sorted(tokenizer_rules.NORMALIZERS),
        "replacements": sorted(tokenizer_rules.REPLACEMENTS),
        "pre_tokenizers": sorted(tokenizer_rules.PRE_TOKENIZERS),
        "patterns": sorted(PATTERNS | KEPT),
        "limits": {
            "changed": 100 * tokenizer_report.MOST_CHANGED,
            "difference": 100 * tokenizer_report.MOST_DIFFERENCE,
            "z": tokenizer_report.LEAST_Z,
            "length": tokenizer_report.MOST_LENGTH_RATIO,
            "unused": 100 * tokenizer_report.MOST_UNUSED,
        },
    }
