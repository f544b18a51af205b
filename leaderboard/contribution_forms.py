"""Forms of outputs that were made elsewhere. Page, command and API go through them, by the names of their fields."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files import File
from django.template.defaultfilters import filesizeformat

from leaderboard.form_fields import Notes, Words
from leaderboard.models import LanguageModel, Metric, Protocol
from leaderboard.services.evaluate import CannotEvaluate, check_metric
from scoring.contributed.rows import ENDINGS, PACKED, format_of

NAME_LENGTH, REVISION_LENGTH, NOTES_LENGTH, MOST_K = 120, 80, 2000, 100
WRONG_K = f"Give a whole number from 1 to {MOST_K}, or leave it empty."
OF_TOOLS = (".jsonl", ".json", ".eval", ".zip", ".jsonl.gz", ".json.gz")
RESULTS_BYTES = 2**23
SETTINGS = ("temperature", "top_p", "max_new_tokens")


class Number(forms.FloatField):
    """A setting that differs from the protocol's; empty where it is the same."""

    def __init__(self, label: str, least: float, most: float) -> None:
        wrong = f"Give a number from {least:g} to {most:g}, or leave it empty."
        messages = {"invalid": wrong, "min_value": wrong, "max_value": wrong}
        super().__init__(label=label, min_value=least, max_value=most, required=False, error_messages=messages)


class Upload(forms.FileField):
    """A file that is small enough and whose name ends as it should. Its contents are left to a worker."""

    def __init__(
        self, *, endings: tuple[str, ...], required: bool = True, most: int | None = None, **options: Any
    ) -> None:
        self.endings, self.most = endings, most
        messages = {
            "required": "Choose the file to send.",
            "empty": "The file is empty: send one with the outputs of every text.",
            "invalid": "No file arrived: choose it again.",
        }
        super().__init__(required=required, error_messages=messages, **options)
        self.widget.attrs["accept"] = ",".join(dict.fromkeys(f".{of.rpartition('.')[2]}" for of in endings))

    def clean(self, data: Any, initial: Any = None) -> Any:
        file: File[bytes] | None = super().clean(data, initial)
        if file is None:
            return None
        most = self.most or settings.UPLOAD_MOST_BYTES
        if (file.size or 0) > most:
            raise ValidationError(f"The file has {filesizeformat(file.size)}: send {filesizeformat(most)} at most.")
        if not str(file.name).lower().endswith(self.endings):
            raise ValidationError(f"The file's name ends in none of {', '.join(self.endings)}: say by it what it is.")
        return file


class ContributionForm(forms.Form):
    """What both forms ask. `metrics`: slugs of metrics that take the same outputs, those of `protocol` when cleaned."""

    metrics = forms.MultipleChoiceField(label="Rank it under", error_messages={"required": "Choose a metric or more."})
    name = Words(label="Name of the model", most=NAME_LENGTH, help_text="As its makers call it.")
    revision = Words(
        label="Which version of it",
        most=REVISION_LENGTH,
        help_text="What fixes it best: a dated name of the API, a version, or the days on which you asked it.",
    )
    family = Words(label="Family", most=80, required=False, help_text="As in GPT-4. Models are filtered by it.")
    licence = Words(label="Licence or terms", most=120, required=False)
    notes = Notes(
        label="Notes",
        most=NOTES_LENGTH,
        help_text=f"What readers should know. Shown on the model's page. {NOTES_LENGTH:,} characters at most.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["metrics"].choices = [(slug, slug) for slug in Metric.objects.values_list("slug", flat=True)]  # type: ignore[attr-defined]
        self.fields["metrics"].error_messages["invalid_choice"] = "There is no metric %(value)s: choose from the list."

    def clean_metrics(self) -> list[str]:
        chosen: list[str] = list(dict.fromkeys(self.cleaned_data["metrics"]))
        metrics = list(Metric.objects.filter(slug__in=chosen).select_related("protocol__evaluation_set__artefact"))
        for metric in metrics:
            try:
                check_metric(metric)
            except CannotEvaluate as error:
                raise ValidationError(f"{error}.") from error
        if len({metric.protocol_id for metric in metrics}) > 1:
            names = ", ".join(metric.slug for metric in metrics)
            raise ValidationError(f"{names} are of different outputs: choose those of one, and send a file for each.")
        self.cleaned_data["protocol"] = metrics[0].protocol
        return chosen


class OutputsForm(ContributionForm):
    """Form B, `outputs`: generations or likelihoods of a closed model, made with our prompts.

    metrics (a list of slugs, all of one protocol), name, revision (words), kind (causal, masked or permutation),
    family, licence, notes, made_with; temperature, top_p and max_new_tokens where they were not the protocol's; and
    the upload: .jsonl, .csv (each also .gz) or .parquet, in the columns of the template. Needed: metrics, name,
    revision, kind and the upload.
    """

    kind = forms.ChoiceField(
        label="Kind",
        choices=LanguageModel.Kind.choices,
        initial=LanguageModel.Kind.CAUSAL,
        help_text="Causal: it continues texts. Only such models can be ranked by continuations.",
        error_messages={
            "required": "Choose the kind of model.",
            "invalid_choice": "There is no kind %(value)s: use causal, masked or permutation.",
        },
    )
    made_with = Words(
        label="How they were made",
        most=300,
        required=False,
        help_text="The service or software and the days. Shown on the model's page.",
    )
    temperature = Number("Temperature", 0, 100)
    top_p = Number("Top-p", 0, 1)
    max_new_tokens = Number("Most new tokens", 1, 1_000_000)
    file = Upload(
        label="File",
        endings=(*ENDINGS, *(f"{of}{PACKED}" for of, kind in ENDINGS.items() if kind != "parquet")),
        help_text="JSON lines, CSV (each also packed, .gz) or Parquet, with the columns of the template.",
    )

    def clean(self) -> dict[str, Any]:
        super().clean()
        protocol: Protocol | None = self.cleaned_data.get("protocol")
        if protocol is None:
            return self.cleaned_data
        kind = self.cleaned_data.get("kind", LanguageModel.Kind.CAUSAL)
        if protocol.method == Protocol.LIKELIHOOD:
            for name in SETTINGS:
                if self.cleaned_data.get(name) is not None:
                    self.add_error(name, "Likelihoods are not drawn: leave it empty.")
        elif kind != LanguageModel.Kind.CAUSAL:
            self.add_error("kind", f"A {kind} model does not continue texts: choose metrics of likelihoods.")
        return self.cleaned_data

    def clean_file(self) -> "File[bytes]":
        file: File[bytes] = self.cleaned_data["file"]
        if format_of(str(file.name)) is None:
            raise ValidationError("Parquet packs itself: send it without .gz.")
        return file


class ToolForm(ContributionForm):
    """Form C, `tool`: what a tool logged of the model's continuations of our prompts; they are scored here.

    metrics (a list of slugs of metrics of continuations, all of one protocol), revision (words), and if need be name
    (else the log's), k (continuations of each prompt in the log, else the metrics'; another k makes a ranking of its
    own), leave_out_others (whether the log may have other prompts too), family, licence, notes; and the upload: the
    samples_*.jsonl (also .gz) of lm-evaluation-harness, or a .zip of it and its results_*.json; HELM's
    scenario_state.json; an Inspect log (.eval or .json). `results`: the results_*.json as a file, where there is no
    zip. Needed: metrics, revision and the upload.
    """

    field_order = ("metrics", "file", "results", "name", "revision", "k", "leave_out_others")
    name = Words(
        label="Name of the model",
        most=NAME_LENGTH,
        required=False,
        help_text="Empty: as the log names it.",
    )
    k = forms.IntegerField(
        label="Continuations of each prompt in the log",
        required=False,
        min_value=1,
        max_value=MOST_K,
        help_text="Empty: as many as the metric asks. Values of another number make a ranking of their own.",
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), WRONG_K),
    )
    leave_out_others = forms.BooleanField(label="The log has other prompts too: leave them out", required=False)
    file = Upload(
        label="Log file",
        endings=OF_TOOLS,
        help_text="samples_*.jsonl, or a zip of it with its results_*.json; scenario_state.json; an Inspect log.",
    )
    results = Upload(
        label="Results file of lm-evaluation-harness",
        endings=(".json",),
        required=False,
        most=RESULTS_BYTES,
        help_text="Its results_*.json names model and version. Leave it out for the other tools, and with a zip.",
    )

    def clean_metrics(self) -> list[str]:
        chosen = super().clean_metrics()
        if self.cleaned_data["protocol"].method == Protocol.LIKELIHOOD:
            raise ValidationError(f"{', '.join(chosen)}: logs have continuations; choose metrics that score those.")
        return chosen
