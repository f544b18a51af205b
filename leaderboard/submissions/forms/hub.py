"""The form of a hub model. The page, the command and the API all use it, by the names of its fields."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from leaderboard.card.form import CARD, FIELDS, Card
from leaderboard.models import LanguageModel, Metric
from leaderboard.submissions.services.hub import PRECISIONS
from leaderboard.submissions.services.hub_ids import check_revision, read_reference
from scoring.refusals import Refused


class Metrics(forms.MultipleChoiceField):
    """A choice of the board's metrics, without repetition."""

    def validate(self, value: list[str]) -> None:
        if unknown := next((slug for slug in value if not self.valid_value(slug)), None):
            raise ValidationError(
                f"There is no metric {unknown[:80]!r} on this board: choose one of those at /api/v1/metrics."
            )

    def clean(self, value: Any) -> list[str]:
        return list(dict.fromkeys(super().clean(value)))


class HubForm(Card):
    """Form A, `hub`: a model of the hub.

    hub_id (org/name, or the address of its page); revision (branch, tag or commit; default: what the address names,
    else the default branch); precision (default: as each protocol says); interface (text, chat or both, which makes two
    entries; default: both where the model has a chat template and a metric asks chats); metrics (a list of slugs;
    default: all that the model can have and lacks); name (default: the hub id), family (default: by its architecture),
    licence (default: as its card says), and the rest of the card.
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
    precision = forms.ChoiceField(
        label="Compute it in",
        required=False,
        choices=PRECISIONS,
        error_messages={
            "invalid_choice": "%(value)r is no precision here: use float32, bfloat16 or float16, or leave it out."
        },
    )
    interface = forms.MultipleChoiceField(
        label="Ask it as",
        required=False,
        choices=LanguageModel.Interface.choices,
        error_messages={"invalid_choice": "%(value)r is no interface: use text, chat, or both."},
    )
    metrics = Metrics(label="Rank it under", required=False)
    name = CARD["name"].make_optional("Empty: its hub id, which is shown in any case.")
    family = CARD["family"].make_optional("Empty: by its architecture. Models are filtered by it.")
    licence = CARD["licence"].make_optional("As its card says. Correct it where that is wrong.")
    field_order = ("hub_id", "revision", "precision", "interface", "metrics", *FIELDS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["metrics"].choices = [(slug, slug) for slug in Metric.objects.values_list("slug", flat=True)]  # type: ignore[attr-defined]
        for name in ("hub_id", "revision"):
            self.fields[name].widget.attrs |= {"autocapitalize": "off", "autocomplete": "off", "spellcheck": "false"}

    def clean_revision(self) -> str:
        try:
            return check_revision(self.cleaned_data["revision"])
        except Refused as error:
            raise ValidationError(str(error)) from error

    def clean_hub_id(self) -> str:
        try:
            hub_id, self.named_revision = read_reference(self.cleaned_data["hub_id"])
        except Refused as error:
            raise ValidationError(str(error)) from error
        return hub_id

    def clean(self) -> dict[str, Any]:
        super().clean()
        address_revision, revision = getattr(self, "named_revision", ""), self.cleaned_data.get("revision", "")
        if address_revision and revision and address_revision != revision:
            problem = (
                f"The address names revision {address_revision!r} and you gave {revision!r}: leave one of them out."
            )
            self.add_error("revision", problem)
        elif address_revision:
            self.cleaned_data["revision"] = address_revision
        if "interface" in self.data and not self.cleaned_data.get("interface") and "interface" not in self.errors:
            self.add_error("interface", "Choose raw text, chat, or both.")
        if "metrics" in self.data and not self.cleaned_data.get("metrics") and "metrics" not in self.errors:
            self.add_error("metrics", "Choose at least one metric.")
        return self.cleaned_data
