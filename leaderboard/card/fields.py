"""Fields that forms share: each takes the same values wherever it stands."""

import copy
import re
import unicodedata
from datetime import date
from typing import Any, ClassVar, Self

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.utils import timezone

from scoring.refusals import Refused

FORMULA = ("=", "+", "-", "@")
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn")  # categories of characters that show nothing, or turn what stands beside them
NOT_STATED = "not stated"
LARGEST = 2**31 - 1  # of an integer that the database keeps in four bytes
FIRST_DAY = date(1950, 1, 1)


def refuse_unseen(text: str, permitted_characters: str = "") -> None:
    """Raise ValidationError with the code points of characters that cannot be seen."""
    invisible_characters = sorted(
        {c for c in text if unicodedata.category(c) in UNSEEN and c not in permitted_characters}
    )
    if invisible_characters:
        codes = ", ".join(f"U+{ord(c):04X}" for c in invisible_characters[:3])
        raise ValidationError(f"It has characters that cannot be seen ({codes}): leave them out.")


def refuse_longer(text: str, most: int) -> None:
    """Raise ValidationError where the text has more than `most` characters."""
    if len(text) > most:
        raise ValidationError(f"It has {len(text):,} characters: use {most:,} at most.")


class Words(forms.CharField):
    """A line of plain text, normalised (NFKC); many blanks are one.

    Nothing that a spreadsheet would run: names stand in exports.
    """

    value_type: ClassVar[type] = str

    def __init__(self, *, label: str, most: int, absence: str = "Fill it in.", **options: Any) -> None:
        self.most = most
        super().__init__(label=label, error_messages={"required": absence}, **options)
        self.widget.attrs["maxlength"] = most

    def clean(self, value: Any) -> str:
        text = unicodedata.normalize("NFKC", str(value or "")).strip()
        refuse_unseen(text)
        text = " ".join(text.split())
        if text.startswith(FORMULA):
            raise ValidationError(f"It begins with {text[0]}, as a spreadsheet's formula does: begin with a letter.")
        refuse_longer(text, self.most)
        if text and not re.search(r"\w", text):
            raise ValidationError("It has no letter and no digit: write it in words.")
        return str(super().clean(text))

    def make_optional(self, help_text: str) -> Self:
        """The same field where it may stay empty; `help_text` says what stands for it then."""
        field = copy.deepcopy(self)
        field.required, field.help_text = False, help_text
        return field

    def describe(self, value: str) -> str:
        """The value as pages show it."""
        return value or NOT_STATED


class Notes(forms.CharField):
    """Some lines of plain text, normalised (NFC)."""

    value_type: ClassVar[type] = str

    def __init__(self, *, label: str, most: int, **options: Any) -> None:
        self.most = most
        super().__init__(label=label, required=False, widget=forms.Textarea(attrs={"rows": 3}), **options)
        self.widget.attrs["maxlength"] = most

    def clean(self, value: Any) -> str:
        text = unicodedata.normalize("NFC", str(value or "")).replace("\r\n", "\n").strip()
        refuse_unseen(text, permitted_characters="\n\t")
        refuse_longer(text, self.most)
        return str(super().clean(text))


class Count(forms.IntegerField):
    """A whole number of `unit` from 1; None where it is not known."""

    value_type: ClassVar[type] = int

    def __init__(self, *, label: str, unit: str, **options: Any) -> None:
        self.unit = unit
        wrong = f"Give a whole number from 1 to {LARGEST:,}, or leave it empty."
        messages = dict.fromkeys(("invalid", "min_value", "max_value"), wrong)
        super().__init__(
            label=label, required=False, min_value=1, max_value=LARGEST, error_messages=messages, **options
        )

    def describe(self, value: int | None) -> str:
        """The value as pages show it."""
        return f"{value:,} {self.unit}" if value else NOT_STATED


def refuse_future(day: date) -> None:
    """Raise ValidationError for a day that nowhere on Earth has come yet."""
    if (day - timezone.now().date()).days > 1:
        raise ValidationError(f"{day} is in the future: give the day on which it was published, or leave it empty.")


class Day(forms.DateField):
    """A day that has come, as in 2026-11-01; None where it is not known."""

    value_type: ClassVar[type] = date

    def __init__(self, *, label: str, **options: Any) -> None:
        wrong = "Give a day as in 2026-11-01, or leave it empty."
        first = MinValueValidator(FIRST_DAY, f"Give a day from {FIRST_DAY} on, or leave it empty.")
        super().__init__(
            label=label,
            required=False,
            input_formats=["%Y-%m-%d"],
            widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
            error_messages={"invalid": wrong},
            validators=[first, refuse_future],
            **options,
        )

    def to_python(self, value: Any) -> date | None:
        return super().to_python(value if isinstance(value, date) else str(value or ""))

    def describe(self, value: date | None) -> str:
        """The value as pages show it."""
        return f"{value:%-d %B %Y}" if value else NOT_STATED


def show_refusal(form: forms.BaseForm, refusal: Refused) -> None:
    """Say what was refused at the fields that it is about, or above them."""
    for name, problems in refusal.problems.items():
        form.add_error(name if name in form.fields else None, list(problems))
