"""Forms of outputs that were made elsewhere. The page, the command and the API use them."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files import File
from django.template.defaultfilters import filesizeformat

from leaderboard.card.fields import Words
from leaderboard.card.form import CARD, FIELDS, Card
from leaderboard.models import LanguageModel, Metric, Protocol
from leaderboard.services.evaluate import CannotEvaluate, check_metric
from leaderboard.submissions.services.outputs import SETTINGS
from scoring.contributed.rows import ENDINGS, PACKED, format_of

REVISION_LENGTH, MOST_K = 80, 100
WRONG_K = f"Give a whole number from 1 to {MOST_K}, or leave it empty."
LOG_ENDINGS = (".jsonl", ".json", ".eval", ".zip", ".jsonl.gz", ".json.gz")
RESULTS_BYTES = 2**23


class Number(forms.FloatField):
    """A setting that differs from the protocol's. Empty: it is the same."""

    def __init__(self, label: str, least: float, most: float) -> None:
        message = f"Give a number from {least:g} to {most:g}, or leave it empty."
        messages = {"invalid": message, "min_value": message, "max_value": message}
        super().__init__(label=label, min_value=least, max_value=most, required=False, error_messages=messages)


class Upload(forms.FileField):
    """A file of an allowed size, with one of the allowed endings. A worker reads its contents later."""

    def __init__(
        self, *, endings: tuple[str, ...], required: bool = True, most: int | None = None, **options: Any
    ) -> None:
        self.endings, self.most = endings, most
        messages = {
            "required": "Choose the file to send.",
            "empty": "The file is empty: send one with the outputs of every text.",
        }
        super().__init__(required=required, error_messages=messages, **options)
        self.widget.attrs["accept"] = ",".join(dict.fromkeys(f".{ending.rpartition('.')[2]}" for ending in endings))

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


class ContributionForm(Card):
    """The fields that both forms have beside the card.

    `metrics`: slugs of metrics that take the same outputs. Cleaning adds `protocol`, the protocol of those outputs.
    """

    metrics = forms.MultipleChoiceField(
        label="Rank it under", error_messages={"required": "Choose at least one metric."}
    )
    revision = Words(
        label="Which version of it",
        most=REVISION_LENGTH,
        help_text="Whatever identifies it best: a dated API name, a version, or the days on which you queried it.",
    )
    field_order = ("metrics", "name", "revision", *FIELDS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["metrics"].choices = [(slug, slug) for slug in Metric.objects.values_list("slug", flat=True)]  # type: ignore[attr-defined]
        self.fields["metrics"].error_messages["invalid_choice"] = "There is no metric %(value)s: choose from the list."

    def clean_metrics(self) -> list[str]:
        slugs: list[str] = list(dict.fromkeys(self.cleaned_data["metrics"]))
        metrics = list(Metric.objects.filter(slug__in=slugs).select_related("protocol__evaluation_set__artefact"))
        for metric in metrics:
            try:
                check_metric(metric)
            except CannotEvaluate as error:
                raise ValidationError(f"{error}.") from error
        if len({metric.protocol_id for metric in metrics}) > 1:
            names = ", ".join(metric.slug for metric in metrics)
            raise ValidationError(
                f"{names} need different outputs: choose metrics under one heading, and send a file for each."
            )
        self.cleaned_data["protocol"] = metrics[0].protocol
        if not metrics[0].protocol.outputs.contributed:
            raise ValidationError(f"{', '.join(slugs)}: this board collects such outputs itself; submit the model.")
        return slugs


class OutputsForm(ContributionForm):
    """Form B, `outputs`: generations or likelihoods of a closed model, made with our prompts.

    metrics (a list of slugs, all of one protocol), name, revision (words), kind (causal, masked or permutation),
    interface (text or chat, by which the model was prompted; text where it is left out), the rest of the card,
    made_with; temperature, top_p and max_new_tokens where they were not the protocol's; and the upload: .jsonl, .csv
    (each also .gz) or .parquet, in the columns of the template. Needed: metrics, name, revision, kind and the upload.
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
    interface = forms.ChoiceField(
        label="How it was prompted",
        choices=LanguageModel.Interface.choices,
        initial=LanguageModel.Interface.TEXT,
        required=False,
        help_text="Raw text: it went on with the prompts as they stand. Chat: it was asked as the chat protocol says, "
        "and you send its whole answers. The two are ranked apart.",
        error_messages={"invalid_choice": "There is no interface %(value)s: use text or chat."},
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
        help_text="JSON lines, CSV (both also as .gz) or Parquet, with the columns of the template.",
    )

    def clean_interface(self) -> str:
        return self.cleaned_data["interface"] or str(LanguageModel.Interface.TEXT)

    def choose_chat_protocol(self) -> None:
        """Ask for answers of a chat, where the metrics have one protocol for them."""
        metrics = Metric.objects.filter(slug__in=self.cleaned_data["metrics"]).select_related("chat_protocol")
        protocols = {metric.chat_protocol for metric in metrics}
        protocol = protocols.pop()
        if protocols or protocol is None:
            self.add_error("interface", "The chosen metrics have no chat protocol in common: send raw text.")
        else:
            self.cleaned_data["protocol"] = protocol

    def clean(self) -> dict[str, Any]:
        super().clean()
        if "protocol" in self.cleaned_data and self.cleaned_data.get("interface") == LanguageModel.Interface.CHAT:
            self.choose_chat_protocol()
        protocol: Protocol | None = self.cleaned_data.get("protocol")
        if protocol is None:
            return self.cleaned_data
        kind = self.cleaned_data.get("kind", LanguageModel.Kind.CAUSAL)
        if not protocol.outputs.sampled:
            for name in SETTINGS:
                if self.cleaned_data.get(name) is not None:
                    self.add_error(name, "Likelihoods are not sampled: leave it empty.")
        if kind not in protocol.outputs.kinds:
            deed = protocol.outputs.deed
            self.add_error("kind", f"A {kind} model does not {deed}: choose metrics of likelihoods.")
        return self.cleaned_data

    def clean_file(self) -> "File[bytes]":
        file: File[bytes] = self.cleaned_data["file"]
        if format_of(str(file.name)) is None:
            raise ValidationError("Parquet is already compressed: send it without .gz.")
        return file


class ToolForm(ContributionForm):
    """Form C, `tool`: what a tool logged of the model's continuations of our prompts; they are scored here.

    metrics (a list of slugs of metrics of continuations, all of one protocol), revision (words), and if need be name
    (else the log's), k (continuations of each prompt in the log, else the metrics'; another k makes a ranking of its
    own), leave_out_others (whether the log may have other prompts too), the rest of the card; and the upload: the
    samples_*.jsonl (also .gz) of lm-evaluation-harness, or a .zip of it and its results_*.json; HELM's
    scenario_state.json; an Inspect log (.eval or .json). `results`: the results_*.json as a file, where there is no
    zip. Needed: metrics, revision and the upload.
    """

    field_order = ("metrics", "file", "results", "name", "revision", "k", "leave_out_others")
    name = CARD["name"].make_optional("Empty: as the log names it.")
    k = forms.IntegerField(
        label="Continuations of each prompt in the log",
        required=False,
        min_value=1,
        max_value=MOST_K,
        help_text="Empty: as many as the metric asks for. Another number makes a separate ranking.",
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), WRONG_K),
    )
    leave_out_others = forms.BooleanField(label="The log has other prompts too: leave them out", required=False)
    file = Upload(
        label="Log file",
        endings=LOG_ENDINGS,
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
        slugs = super().clean_metrics()
        if not self.cleaned_data["protocol"].outputs.sampled:
            raise ValidationError(f"{', '.join(slugs)}: logs have continuations; choose metrics that score those.")
        return slugs
