"""Forms of operators."""

from typing import Any

from django import forms

from leaderboard.card.fields import show_refusal
from leaderboard.models import Metric
from leaderboard.services import policies
from scoring.refusals import Refused
from scoring.scorers import SCORERS


class ReasonForm(forms.Form):
    """The reason of an action."""

    reason = forms.CharField(max_length=500, label="Reason", help_text="It stays in the record for ever.")


class SuccessorForm(forms.Form):
    """The scorer that is to take over."""

    successor = forms.CharField(max_length=120, label="Successor")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = ", ".join(declaration.name for declaration in SCORERS)
        self.fields["successor"].help_text = f"One of {names}; write a name of yours for the capitals."


class NoteForm(forms.Form):
    """The note that readers of a hidden model's page see."""

    note = forms.CharField(
        max_length=500,
        label="Public note",
        help_text="The model's page says this and nothing else. The change log says it without the model's name.",
        widget=forms.Textarea(attrs={"rows": 3}),
    )


class PolicyForm(forms.Form):
    """The fields of a metric's policy, and the reason. `change`: the old and new values that differ, once valid."""

    def __init__(self, metric: Metric, data: Any = None) -> None:
        self.metric = metric
        self.change: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        super().__init__(data, initial=policies.policy_in_force(metric))
        usual = policies.defaults_of(metric)
        for policy_field in policies.fields_of(metric):
            default = "none" if usual[policy_field.name] is None else usual[policy_field.name]
            kind = forms.IntegerField if policy_field.whole else forms.FloatField
            attributes = {} if policy_field.whole else {"step": "any"}
            self.fields[policy_field.name] = kind(
                label=policy_field.label,
                required=not policy_field.optional,
                help_text=f"{policy_field.help} Usual: {default}.",
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
        """The requested policy."""
        return {name: value for name, value in self.cleaned_data.items() if name != "reason"}

    def clean(self) -> None:
        super().clean()
        if self.errors:
            return
        try:
            whole = policies.complete_policy(self.metric, self.values)
        except Refused as error:
            show_refusal(self, error)
            return
        self.change = policies.difference(policies.policy_in_force(self.metric), whole)
        if not self.change[1]:
            self.add_error(None, "This is the policy in force: change a value first.")
