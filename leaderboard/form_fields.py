"""Fields that forms share."""

import re
import unicodedata
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

FORMULA = ("=", "+", "-", "@")
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn")  # categories of characters that show nothing, or turn what stands beside them


class Words(forms.CharField):
    """A line of plain text, normalised (NFKC); many blanks are one.

    Nothing that a spreadsheet would run: names stand in exports.
    """

    def __init__(self, *, label: str, most: int, missing: str = "Fill it in.", **options: Any) -> None:
        self.most = most
        super().__init__(label=label, error_messages={"required": missing}, **options)
        self.widget.attrs["maxlength"] = most

    def clean(self, value: Any) -> str:
        text = " ".join(unicodedata.normalize("NFKC", str(value or "")).split())
        if any(unicodedata.category(character) in UNSEEN for character in text):
            raise ValidationError("It has characters that cannot be seen: write it in plain letters.")
        if text.startswith(FORMULA):
            raise ValidationError(f"It begins with {text[0]}, as a spreadsheet's formula does: begin with a letter.")
        if len(text) > self.most:
            raise ValidationError(f"It has {len(text):,} characters: use {self.most} at most.")
        if text and not re.search(r"\w", text):
            raise ValidationError("It has no letter and no digit: write it in words.")
        return str(super().clean(text))


class Notes(forms.CharField):
    """Some lines of plain text."""

    def __init__(self, *, label: str, most: int, **options: Any) -> None:
        self.most = most
        super().__init__(label=label, required=False, widget=forms.Textarea(attrs={"rows": 3}), **options)
        self.widget.attrs["maxlength"] = most

    def clean(self, value: Any) -> str:
        text = str(value or "").replace("\r\n", "\n").strip()
        if any(unicodedata.category(character) in UNSEEN and character not in "\n\t" for character in text):
            raise ValidationError("It has characters that cannot be seen: write it in plain letters.")
        if len(text) > self.most:
            raise ValidationError(f"It has {len(text):,} characters: use {self.most:,} at most.")
        return str(super().clean(text))
