"""What is said of a model. Every way of saying it is this form: sending, correcting, admin, API, import."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import ErrorDict

from leaderboard.card.fields import Count, Day, Notes, Words
from leaderboard.models import LanguageModel
from scoring.refusals import Refused

NOTES_LENGTH = 2000


def longest(column: str) -> int:
    """The most characters that the column of a model holds."""
    return int(getattr(LanguageModel._meta.get_field(column), "max_length", 0))


class Card(forms.Form):
    """What is said of a model beside its numbers.

    A field is a column of LanguageModel and a line here; forms, pages, API, commands, admin, export and import read the
    fields. `configured`: the values that the model's own configuration states; nobody can state others.
    """

    name = Words(
        label="Name of the model",
        most=longest("name"),
        absence="Fill it in. Give the model a name.",
        help_text="As its makers call it.",
    )
    family = Words(
        label="Family", most=longest("family"), required=False, help_text="As in GPT-4. Models are filtered by it."
    )
    licence = Words(label="Licence", most=longest("licence"), required=False, help_text="Or the terms of its use.")
    context = Count(label="Context length", unit="tokens", help_text="The longest text that it reads, in tokens.")
    release_date = Day(label="Release date", help_text="When its makers published it, as in 2026-11-01.")
    notes = Notes(
        label="Notes",
        most=NOTES_LENGTH,
        help_text=f"What readers should know. Shown on the model's page. {NOTES_LENGTH:,} characters at most.",
    )

    def __init__(self, *args: Any, configuration: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configured = configuration or {}

    def clean(self) -> dict[str, Any]:
        super().clean()
        self.apply_configuration(self.configured)
        return self.cleaned_data

    def apply_configuration(self, configuration: Mapping[str, Any]) -> None:
        """Take the values of the configuration; another value is an error of its field."""
        for name, value in configuration.items():
            if self.cleaned_data.get(name) not in (None, "", value):
                self.add_error(name, f"The model's configuration says {value:,}: leave it empty.")
            self.cleaned_data[name] = value

    @property
    def card_fields(self) -> list[forms.BoundField]:
        """The fields of the card to fill in."""
        return [self[name] for name in FIELDS if name not in self.configured]

    @property
    def facts(self) -> list[forms.BoundField]:
        """Those of them that are short and may stay empty."""
        return [field for field in self.card_fields if field.name in FACTS]

    @property
    def problems(self) -> dict[str, list[str]]:
        """What is wrong, by field."""
        return {name: [str(text) for text in texts] for name, texts in self.errors.items()}

    def show(self, problems: dict[str, list[str]]) -> None:
        """Show these problems, by field, and no others: a service checked what was filled in."""
        self._errors, self.cleaned_data = ErrorDict(), {}
        for name, texts in problems.items():
            for text in texts:
                self.add_error(name if name in self.fields else None, text)


CARD: dict[str, Any] = Card.base_fields  # the fields by name
FIELDS = tuple(CARD)
FACTS = tuple(name for name in FIELDS if name not in ("name", "notes"))


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON can hold them: a day becomes its text."""
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in values.items()}


def columns_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a model that a payload states."""
    return {name: field.to_python(payload[name]) for name, field in CARD.items() if name in payload}


def clean_or_empty(name: str, text: str) -> str:
    """The text of a stranger for the field `name`; "" where the card does not take it."""
    try:
        return str(CARD[name].clean(text))
    except ValidationError:
        return ""


def clean_field(name: str, text: str) -> str:
    """What somebody at the terminal states for the field `name` of a model. Raises Refused."""
    try:
        return str(CARD[name].clean(text))
    except ValidationError as error:
        raise Refused.of_value(name, text, " ".join(error.messages)) from error


def describe_facts(model: LanguageModel) -> list[tuple[str, str]]:
    """Label and text of what is stated of a model, but for its name and notes."""
    return [(str(CARD[name].label), CARD[name].describe(getattr(model, name))) for name in FACTS]
