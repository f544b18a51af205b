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
from django.urls import reverse
from django.utils.text import slugify

from leaderboard.glossary import GLOSSARY, Term
from leaderboard.models import Metric
from leaderboard.queries.drawings import Drawing
from leaderboard.queries.example_tables import INDIFFERENT, ExampleTable
from leaderboard.queries.examples import EXAMPLES
from scoring.language_models import package, tokenizer_report, tokenizer_rules
from scoring.language_models.tokenizer_patterns import KEPT, PATTERNS
from scoring.metrics import outliers
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
    """One or more measures that one page defines."""

    name: str
    formula: Formula
    measures: list[Measure]

    @property
    def title(self) -> str:
        """The first measure by name; others on the page are shown under it."""
        return "Log-perplexity" if self.name == "log_perplexity" else self.measures[0].label

    @property
    def address(self) -> str:
        """Of its page."""
        return reverse("docs_measure", args=[self.name])

    @property
    def template(self) -> str:
        """Where the mathematics is."""
        return f"docs/measures/{self.name}.html"

    @property
    def others(self) -> list[Measure]:
        """The measures beside the one that the page is named after."""
        return [measure for measure in self.measures if measure.key != self.name]

    @property
    def example(self) -> "Example":
        """Numbers to follow by hand."""
        table, draw = EXAMPLES[self.name]
        return Example(f"docs/examples/{self.name}.html", table, draw())


@dataclass(frozen=True, slots=True)
class Example:
    """A table of numbers, the template that works through them, and a drawing of what it does."""

    template: str
    table: ExampleTable
    drawing: Drawing
    second_table: ExampleTable = INDIFFERENT  # of ratios, which one example counts over


@dataclass(frozen=True, slots=True)
class Chapter:
    """A formula with the definitions of its measures, in the order of its tables."""

    formula: Formula
    definitions: list[Definition]

    @property
    def anchor(self) -> str:
        """Where it stands in the list; a measure may have the formula's name."""
        return f"formula-{self.formula.name}"


@dataclass(frozen=True, slots=True)
class Method:
    """A method that several measures use, with the parts of its page by their anchors."""

    name: str
    title: str
    summary: str
    parts: tuple[tuple[str, str], ...]

    @property
    def template(self) -> str:
        """Where its text is."""
        return f"docs/methods/{self.name}.html"


METHODS = {
    method.name: method
    for method in (
        Method(
            "perplexity",
            "Perplexity and pseudo-perplexity",
            "How surprising a text is to each kind of model, and how a model is tested before it is measured.",
            (("definition", "Definition"), ("self-test", "Self-test of a model")),
        ),
        Method(
            "intervals",
            "Intervals and tests",
            "How far a number could have moved had other texts been drawn, and when a difference is significant.",
            (
                ("delong", "Area under the curve: DeLong on the logit scale"),
                ("delong-p", "p of an area: DeLong"),
                ("mann-whitney", "p of the published code: Mann and Whitney"),
                ("jackknife", "Shares and means over prompts: jackknife on the logit scale"),
                ("bootstrap", "Bootstrap over prompts, texts or templates"),
                ("wilson", "Shares: Wilson"),
                ("conservative", "Published areas: Wilson with the smaller count"),
                ("holm", "Several tests at once: Holm"),
            ),
        ),
        Method(
            "ranks",
            "Ranks and their ranges",
            "Which places a model could hold, given the texts that were drawn.",
            (("range", "From pairs of models to a range"), ("reading-ranks", "Reading a rank")),
        ),
        Method(
            "agreement",
            "Agreement of metrics",
            "How the correlations between measures, and with the size of models, are computed; and ranks by scorer.",
            (
                ("coefficients", "Coefficients and their intervals"),
                ("rank-sensitivity", "Ranks under several scorers"),
            ),
        ),
        Method(
            "drift",
            "Drift of a scorer",
            "When a scorer counts as changed or drifted, and what a check can find.",
            (
                ("noise-floor", "The opening: every text's own noise"),
                ("changed", "L0 and L1: another fingerprint, and beyond the noise"),
                ("material", "L2: does it matter?"),
                ("detectable", "What a check can find"),
                ("described", "What describes and never decides"),
            ),
        ),
        Method(
            "succession",
            "Succession of scorers",
            "What is left of a scorer's numbers when another one takes over, and by which rules that is judged.",
            (
                ("succession-texts", "Texts that both have scored"),
                ("succession-mapping", "The mapping to the old scale"),
                ("succession-ranks", "Ranks of the models"),
                ("succession-verdict", "The verdict"),
            ),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class GlossaryEntry:
    """A word, its meaning, and the address of the page that says more; "" where there is none. also: see `Term`."""

    key: str
    name: str
    meaning: str
    address: str = ""
    also: str = ""


@dataclass(frozen=True, slots=True)
class GlossaryGroup:
    """Words that belong together."""

    title: str
    entries: list[GlossaryEntry]

    @property
    def anchor(self) -> str:
        """Where it stands on the page."""
        return slugify(self.title)


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
        heading, value = re.fullmatch(r"# --- (.+) ---", line), re.fullmatch(r"#([A-Z][A-Z0-9_]+)=(.*)", line)
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
    return [Definition(name, formula, measures) for name, measures in measures_by_name.items()]


def measure_address(key: str) -> str:
    """Where a measure is defined. Raises LookupError where it is not."""
    definition = find_definition(key)
    if definition is None:
        raise LookupError(f"measure {key!r}: no page defines it; add it to a formula")
    return definition.address if key == definition.name else f"{definition.address}#{key}"


def find_definition(key: str) -> Definition | None:
    """The definition of that name, else the one that explains the measure of that key; None where there is none."""
    definitions = [definition for chapter in chapters() for definition in chapter.definitions]
    return next(
        (
            definition
            for definition in definitions
            if key == definition.name or any(measure.key == key for measure in definition.measures)
        ),
        None,
    )


def glossary() -> list[GlossaryGroup]:
    """Every word with its meaning and where to read more: the declared ones, and the measures of all formulas."""
    groups = [GlossaryGroup(group.title, [_entry(term) for term in group.terms]) for group in GLOSSARY]
    measures = [
        GlossaryEntry(definition.name, definition.title, definition.measures[0].explanation, definition.address)
        for chapter in chapters()
        for definition in chapter.definitions
    ]
    return [*groups, GlossaryGroup("Measures", measures)]


def _entry(term: Term) -> GlossaryEntry:
    if not term.page:
        return GlossaryEntry(term.key, term.name, term.meaning, also=term.also)
    name, *arguments = term.page
    address = reverse(name, args=arguments) + (f"#{term.anchor}" if term.anchor else "")
    return GlossaryEntry(term.key, term.name, term.meaning, address, term.also)


def metrics_with_formula(formula: Formula) -> list[Metric]:
    """The board's metrics whose numbers a formula makes, in one query."""
    return list(Metric.objects.filter(formula_name=formula.name))


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
            "most": outliers.MOST,
        },
    }
