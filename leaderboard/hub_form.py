"""The form of a hub model. Page, command and API all go through it, by the names of its fields."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import ErrorDict

from leaderboard.form_fields import Notes, Words
from leaderboard.models import Metric
from leaderboard.services.hub_ids import NotAnId, check_revision, read_reference

NAME_LENGTH, NOTES_LENGTH = 120, 2000


class Metrics(forms.MultipleChoiceField):
    """Metrics of the board, each once."""

    def validate(self, value: list[str]) -> None:
        if unknown := next((slug for slug in value if not self.valid_value(slug)), None):
            raise ValidationError(
                f"There is no metric {unknown[:80]!r} on this board: choose one of those at /api/v1/metrics."
            )

    def clean(self, value: Any) -> list[str]:
        return list(dict.fromkeys(super().clean(value)))


class HubForm(forms.Form):
    """Form A, `hub`: a model of the hub.

    hub_id (org/name, or the address of its page); revision (branch, tag or commit; default: what the address names,
    else the default branch); metrics (a list of slugs; default: all that the model can have and lacks); name (default:
    the hub id), family (default: by its architecture), licence (default: as its card says), notes.
    """

    hub_id = forms.CharField(
        label="Model on the hub",
        help_text="As in org/name, or the address of its page.",
        error_messages={"required": "Say which model: its id on the hub, as in org/name."},
    )
    revision = forms.CharField(
        label="Revision",
        required=False,
        help_text="A branch, tag or commit. Empty: its default branch as it is now. It is pinned to its commit.",
    )
    metrics = Metrics(label="Rank it under", required=False)
    name = Words(
        label="Name on this board",
        most=NAME_LENGTH,
        required=False,
        help_text="Empty: its hub id, which is shown in any case.",
    )
    family = Words(label="Family", most=80, required=False, help_text="Models are filtered by it.")
    licence = Words(
        label="Licence", most=120, required=False, help_text="As its card says. Correct it where that is wrong."
    )
    notes = Notes(
        label="Notes",
        most=NOTES_LENGTH,
        help_text=f"What readers should know. Shown on the model's page. {NOTES_LENGTH:,} characters at most.",
    )
    field_order = ("hub_id", "revision", "metrics", "name", "family", "licence", "notes")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["metrics"].choices = [(slug, slug) for slug in Metric.objects.values_list("slug", flat=True)]  # type: ignore[attr-defined]
        for name in ("hub_id", "revision"):
            self.fields[name].widget.attrs |= {"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}

    def clean_revision(self) -> str:
        try:
            return check_revision(self.cleaned_data["revision"])
        except NotAnId as error:
            raise ValidationError(str(error)) from error

    def clean_hub_id(self) -> str:
        try:
            found, self.named_revision = read_reference(self.cleaned_data["hub_id"])
        except NotAnId as error:
            raise ValidationError(str(error)) from error
        return found

    def clean(self) -> dict[str, Any]:
        super().clean()
        named, given = getattr(self, "named_revision", ""), self.cleaned_data.get("revision", "")
        if named and given and named != given:
            problem = f"The address names revision {named!r} and you gave {given!r}: leave one of them out."
            self.add_error("revision", problem)
        elif named:
            self.cleaned_data["revision"] = named
        if "metrics" in self.data and not self.cleaned_data.get("metrics") and "metrics" not in self.errors:
            self.add_error("metrics", "Choose a metric or more.")
        return self.cleaned_data

    def show(self, problems: dict[str, list[str]]) -> None:
        """Say these problems, by field, and no others: what was filled in was checked already."""
        self._errors, self.cleaned_data = ErrorDict(), {}
        for name, texts in problems.items():
            for text in texts:
                self.add_error(name if name in self.fields else None, text)
