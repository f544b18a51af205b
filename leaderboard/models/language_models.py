"""The models that the board ranks."""

from functools import lru_cache
from typing import get_args

from django.db import models
from django.db.models import Q
from django.urls import reverse

from leaderboard.models.clock import birth_field
from leaderboard.models.constraints import one_of
from scoring.language_models import Precision


@lru_cache(maxsize=10_000)
def address_of_model(slug: str) -> str:
    """The path of a model's page, remembered: tables have one in each row."""
    return reverse("model", args=[slug])


def is_listed(model: str = "") -> Q:
    """Return the condition for models that are not hidden. model: the lookup prefix, as in `model__`."""
    if not model:
        return Q(hidden_note="")
    # By the few hidden models: a database without statistics would plan as if nearly all rows were hidden.
    return ~Q(**{f"{model}pk__in": LanguageModel.objects.exclude(hidden_note="").values("pk")})


def ranked_now(model: str = "") -> Q:
    """Return the condition for models that are neither hidden nor withdrawn. model: as for `listed`."""
    return is_listed(model) & ~Q(**{f"{model}access": Access.WITHDRAWN})


def asked_as(manner: str, model: str = "") -> Q:
    """Return the condition for models whose `prompting` is `manner`. model: as for `is_listed`."""
    if manner == PromptingManner.CHAT:
        return Q(**{f"{model}interface": Interface.CHAT})
    raw_text = Q(**{f"{model}interface": Interface.TEXT})
    if manner == PromptingManner.RAW:
        return raw_text & ~Q(**{f"{model}chat_template": ""})
    has_files = Q(**{f"{model}source__in": WITH_FILES})
    return raw_text & Q(**{f"{model}chat_template": ""}) & (has_files if manner == PromptingManner.BASE else ~has_files)


def open_weights(model: str = "") -> Q:
    """Return the condition for models whose weights are here or on the hub. model: as for `is_listed`."""
    return Q(**{f"{model}source__in": WITH_FILES}) | Q(**{f"{model}identity__hub_id__gt": ""})


class LanguageModelQuerySet(models.QuerySet["LanguageModel"]):
    def listed(self) -> "LanguageModelQuerySet":
        """Those that are not hidden."""
        return self.filter(is_listed())

    def hidden_slugs(self) -> frozenset[str]:
        """Return the slugs of models whose numbers nobody is shown."""
        return frozenset(self.exclude(is_listed()).values_list("slug", flat=True))

    def evaluable(self) -> "LanguageModelQuerySet":
        """Those with weights that may be run, or a server that is still the one that was entered."""
        sources = (LanguageModel.Source.PUBLISHED, LanguageModel.Source.UPLOADED)
        open_ones = self.filter(access=LanguageModel.Access.OPEN).exclude(source__in=sources)
        return open_ones.exclude(service_changed_at__isnull=False)

    def lineage(self, model: "LanguageModel") -> "LanguageModelQuerySet":
        """The revisions of the same model, `model` itself among them.

        Where it has a place it comes from, all from there; of outputs that somebody uploaded, theirs of that name.
        """
        same = self.filter(source=model.source)
        if model.source == LanguageModel.Source.PUBLISHED:  # figures, of no revision that anybody knows
            return same.filter(pk=model.pk)
        if model.location:
            return same.filter(location=model.location)
        same = same.filter(name=model.name)
        if model.source != LanguageModel.Source.UPLOADED:
            return same
        return same.filter(
            Q(pk=model.pk) | Q(submissions__submitter__in=model.submissions.values("submitter"))
        ).distinct()

    def revisions(self, model: "LanguageModel") -> "LanguageModelQuerySet":
        """Those of its lineage that are run as it is: in the same precision, through the same interface."""
        return self.lineage(model).filter(precision=model.precision, interface=model.interface)


class ModelKind(models.TextChoices):
    CAUSAL = "causal", "Causal"
    MASKED = "masked", "Masked"
    PERMUTATION = "permutation", "Permutation (experimental)"


class Source(models.TextChoices):
    HUB = "hub", "Hugging Face hub"
    BUNDLED = "bundled", "Bundled with Plumbline"
    LOCAL = "local", "Folder or file of the operator"
    SERVER = "server", "Completions server"
    UPLOADED = "uploaded", "Uploaded outputs"
    PUBLISHED = "published", "Figures from a paper"


WITH_FILES = (Source.HUB, Source.BUNDLED, Source.LOCAL)  # of models that this board can read itself


class Interface(models.TextChoices):
    TEXT = "text", "Raw text"
    CHAT = "chat", "Chat"


class PromptingManner(models.TextChoices):
    """How an entry is asked, and whether its model was made to be asked so. It follows from other fields."""

    BASE = "base", "Base model, as raw text"
    RAW = "raw", "Chat model, as raw text"
    CHAT = "chat", "Chat model, as a chat"
    UNKNOWN = "unknown", "Unknown"


class Access(models.TextChoices):
    OPEN = "open", "Open"
    RESTRICTED = "restricted", "Restricted"
    WITHDRAWN = "withdrawn", "Withdrawn"


class LanguageModel(models.Model):
    """One revision of one model, as it is run: in one precision and through one interface.

    A new revision is a new row of the same lineage.
    """

    Kind = ModelKind
    Interface = Interface
    Prompting = PromptingManner
    Source = Source
    Access = Access

    slug = models.SlugField(max_length=120, unique=True)
    name = models.CharField(max_length=200)
    source_name = models.CharField(
        max_length=200, blank=True, help_text="What its source calls it; empty where that is its name."
    )
    identity = models.ForeignKey(
        "ModelIdentity",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="entries",
        help_text="The model that it is evidence about; empty where that is nobody else's.",
    )
    family = models.CharField(max_length=80, blank=True)
    kind = models.CharField(max_length=20, choices=ModelKind)
    source = models.CharField(max_length=20, choices=Source)
    location = models.CharField(
        max_length=500,
        blank=True,
        help_text="Hub id, folder, file, address and name of a served model, or the name, in small letters, of one "
        "whose outputs were sent; empty for published figures.",
    )
    revision = models.CharField(
        max_length=80, blank=True, help_text="Commit of the hub, sha256 of the files, or what the operator says of it."
    )
    interface = models.CharField(
        max_length=20, choices=Interface, default=Interface.TEXT, help_text="How it is prompted where it generates."
    )
    precision = models.CharField(
        max_length=20, blank=True, help_text="What it is computed in, where declared; empty: as the protocol says."
    )
    weight_format = models.CharField(
        max_length=40, blank=True, help_text="How its weights are stored, as in bfloat16, FP8 or GGUF Q4_K_M."
    )
    chat_template = models.CharField(
        max_length=64, blank=True, help_text="sha256 of the template that its tokenizer holds; empty: it has none."
    )
    licence = models.CharField(max_length=120, blank=True)
    parameters = models.BigIntegerField(null=True, blank=True)
    layers = models.PositiveIntegerField(null=True, blank=True)
    heads = models.PositiveIntegerField(null=True, blank=True)
    hidden_size = models.PositiveIntegerField(null=True, blank=True)
    context = models.PositiveIntegerField(null=True, blank=True, help_text="Longest text, in tokens.")
    release_date = models.DateField(null=True, blank=True, help_text="When its makers published it.")
    access = models.CharField(max_length=20, choices=Access, default=Access.OPEN)
    hidden_note = models.TextField(
        blank=True, help_text="Why no ranking or list names it, for its readers; empty where it is not hidden."
    )
    service_changed_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Since when the service behind it is another one, so that nobody can measure it again.",
    )
    notes = models.TextField(blank=True, help_text="What its submitter says of it.")
    created_at = birth_field()

    objects = LanguageModelQuerySet.as_manager()

    class Meta:
        ordering = ("name", "pk")
        constraints = (
            one_of("kind", ModelKind),
            one_of("source", Source),
            one_of("access", Access),
            one_of("interface", Interface),
            models.UniqueConstraint(
                fields=["source", "location", "revision", "precision", "interface"],
                condition=~Q(location=""),
                name="languagemodel_one_row_a_revision",
            ),
            models.CheckConstraint(
                condition=Q(source__in=["published", "uploaded"]) | (~Q(location="") & ~Q(revision="")),
                name="languagemodel_weights_pinned",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return address_of_model(self.slug)

    @property
    def is_chat(self) -> bool:
        """Whether it is prompted as a chat where it generates."""
        return self.interface == Interface.CHAT

    def twins(self) -> "LanguageModelQuerySet":
        """The entries of the same revision in the same precision through the other interface."""
        same = {name: getattr(self, name) for name in ("source", "location", "revision", "precision")}
        return LanguageModel.objects.filter(**same).exclude(interface=self.interface).exclude(location="")

    @property
    def configuration(self) -> dict[str, int]:
        """The values that its own configuration states, so that nobody has to enter them."""
        return {"context": self.context} if self.source in WITH_FILES and self.context else {}

    @property
    def prompting(self) -> PromptingManner:
        """How it is asked; unknown where nobody here has seen its files. `asked_as` is the same for the database."""
        if self.interface == Interface.CHAT:
            return PromptingManner.CHAT
        if self.chat_template:
            return PromptingManner.RAW
        return PromptingManner.BASE if self.source in WITH_FILES else PromptingManner.UNKNOWN

    @property
    def has_open_weights(self) -> bool:
        """Whether its weights are here or on the hub. `open_weights` is the same for the database."""
        return self.source in WITH_FILES or bool(self.identity and self.identity.hub_id)

    @property
    def precision_label(self) -> str:
        """What readers see beside its name, as in "bfloat16" or "FP8, in bfloat16".

        Empty where weights that nobody quantised are computed in what the protocol says.
        """
        quantised_format = "" if self.weight_format in get_args(Precision) else self.weight_format
        if not quantised_format:
            return self.precision
        return f"{quantised_format}, in {self.precision}" if self.precision else quantised_format

    @property
    def is_off_rankings(self) -> bool:
        """Whether current rankings omit it because it is withdrawn or hidden."""
        return bool(self.hidden_note) or self.access == Access.WITHDRAWN

    def was_submitted(self) -> bool:
        """Whether a submission entered it, and not an operator."""
        return self.submissions.filter(created_at__lte=self.created_at).exists()

    def is_evaluated(self) -> bool:
        """Whether an evaluation of it is under way: one whose run ended without anything to score is not."""
        open_ones = self.scorings.filter(state__in=["queued", "running"])
        return open_ones.exclude(run__state__in=["failed", "cancelled"]).exists()
