"""Forms of those who run the board."""

from typing import Any

from django import forms

from leaderboard.models import Metric
from leaderboard.services import policies


class ReasonForm(forms.Form):
    """Why something is done."""

    reason = forms.CharField(max_length=500, label="Reason", help_text="It stays in the record for ever.")


class NoteForm(forms.Form):
    """What readers of a hidden model's page are told."""

    note = forms.CharField(
        max_length=500,
        label="Public note",
        help_text="The model's page says this and nothing else. The change log says it without the model's name.",
        widget=forms.Textarea(attrs={"rows": 3}),
    )


class PolicyForm(forms.Form):
    """Every field of a metric's policy, and why it is changed. `change`, once it is valid: what differs."""

    def __init__(self, metric: Metric, data: Any = None) -> None:
        self.metric = metric
        self.change: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        super().__init__(data, initial=policies.policy_in_force(metric))
        usual = policies.defaults_of(metric)
        for of in policies.fields_of(metric):
            said = "none" if usual[of.name] is None else usual[of.name]
            kind = forms.IntegerField if of.whole else forms.FloatField
            attributes = {} if of.whole else {"step": "any"}
            self.fields[of.name] = kind(
                label=of.label,
                required=not of.optional,
                help_text=f"{of.help} Usual: {said}.",
                widget=forms.NumberInput(attrs=attributes),
            )
        self.fields[policies.OUTDATED] = forms.ChoiceField(
            label="Entries that cannot be scored again",
            choices=Metric.OutdatedPolicy.choices,
            help_text="What becomes of them under a new version.",
        )
        self.fields[policies.FLAGGED] = forms.ChoiceField(
            label="Entries that people should look at first",
            choices=Metric.FlagPolicy.choices,
            help_text="Where the tokenizer or the numbers of an entry stand out. Holds for entries scored from now on.",
        )
        self.fields["reason"] = forms.CharField(
            max_length=500, label="Reason", help_text="It stays in the public change log for ever."
        )

    @property
    def values(self) -> dict[str, Any]:
        """The policy that is asked for."""
        return {name: value for name, value in self.cleaned_data.items() if name != "reason"}

    def clean(self) -> None:
        super().clean()
        if self.errors:
            return
        try:
            whole = policies.checked(self.metric, self.values)
        except policies.CannotSetPolicy as error:
            self.add_error(error.field, str(error))
            return
        self.change = policies.difference(policies.policy_in_force(self.metric), whole)
        if not self.change[1]:
            self.add_error(None, "This is the policy in force: change a value first.")
