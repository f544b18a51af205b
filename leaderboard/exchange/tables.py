"""The tables of a package, declared once: what is exported, how rows refer to each other, and what an import makes.

A row is named by the natural key of its table, as in (metric, version, model), never by the number that a database gave
it. What is not public is in no table: users, tokens, submissions, who did something, work that is under way, where the
operator keeps models.
"""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db import models
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Concat

from leaderboard.card.form import FIELDS
from leaderboard.models import (
    Artefact,
    AuditEvent,
    Calibration,
    ControlCheck,
    ControlSet,
    EntryCheck,
    EvaluationSet,
    LanguageModel,
    Metric,
    MetricVersion,
    ModelIdentity,
    OutdatedEntry,
    Protocol,
    Rescoring,
    Result,
    RetiredScorer,
    Run,
    Scoring,
    Standing,
    Work,
    not_held,
)
from leaderboard.models.language_models import is_listed
from leaderboard.queries.changes import OF_VERB

ELSEWHERE = "elsewhere:"  # in place of a folder or an address of the board that a model was measured on
# The details of an event that the public change log shows. Other details stay on the board.
DETAILS = frozenset(
    (
        *("check", "entries", "from", "model", "note", "of_their_own", "outdated", "reason", "reasons", "revision"),
        *("scorer", "sha256", "source", "texts", "to", "version"),
    )
)
REASONS = "reasons"  # by model
NAMES_ALONE = "after"  # of which the log shows what changed, and not to what
AS_RUN = ("interface", "precision", "weight_format", "chat_template")  # how an entry is run
FIRST_FIELDS = ("name", "family", "licence", "context", "notes")  # what packages of every Plumbline say of a model
BY_OPERATOR = "by_operator"  # of an imported event that a person of the other board caused
TIMES = ("created_at", "started_at", "finished_at", "done", "total", "seconds")


@dataclass(frozen=True)
class PackageLink:
    """A foreign key of the model, and the columns that hold the key of the other row."""

    attribute: str
    table: str
    columns: tuple[str, ...]
    late: bool = False  # set when all tables are there: the table that it refers to comes after


@dataclass(frozen=True)
class PackageTable:
    """A table of the package: rows of `model`, chosen by `rows`.

    `own`: fields of the model that are columns by the same name; `links` give the other columns. `constant`: what an
    import sets without being told. `paths`: where a column's value comes from, where not from the field. `added`:
    columns that packages of an earlier Plumbline lack; `earlier`: what stands for such a column where that is not the
    default of its field. `since`: the format of packages that has the table; earlier ones lack it whole.
    """

    name: str
    title: str
    model: type[models.Model]
    rows: Callable[[], QuerySet[Any]]
    key: tuple[str, ...]
    own: tuple[str, ...]
    links: tuple[PackageLink, ...] = ()
    constant: tuple[tuple[str, Any], ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    earlier: tuple[tuple[str, Any], ...] = ()
    since: int = 1

    @cached_property
    def columns(self) -> list[str]:
        """The names of all columns, those of the key first."""
        link_columns = [column for link in self.links for column in link.columns]
        return list(dict.fromkeys([*self.key, *link_columns, *self.own]))

    @property
    def path(self) -> str:
        """The file in the package."""
        return f"tables/{self.name}.parquet"

    def lookup(self, column: str) -> str:
        """Return the Django lookup of a column."""
        if column in dict(self.paths):
            return dict(self.paths)[column]
        if column in self.own:
            return column
        link, position = self.link_of(column)
        other = BY_NAME[link.table]
        return f"{link.attribute}__{other.lookup(other.key[position])}"

    def link_of(self, column: str) -> tuple[PackageLink, int]:
        """Return the link that a column belongs to, and its position in the link."""
        return next((link, link.columns.index(column)) for link in self.links if column in link.columns)

    def field(self, column: str) -> "models.Field[Any, Any]":
        """Return the model field behind a column; for a link, the field of the other table."""
        if column == BY_OPERATOR:
            return models.BooleanField(help_text="Whether a person did it; the board itself otherwise.")
        if column in self.own:
            field = self.model._meta.get_field(column)
            assert isinstance(field, models.Field)  # noqa: S101 (for mypy: columns are no reverse relations)
            return field
        link, position = self.link_of(column)
        other = BY_NAME[link.table]
        return other.field(other.key[position])

    def may_lack(self, column: str) -> bool:
        """Whether packages of an earlier Plumbline lack the column."""
        return column in self.added

    def stand_in(self, column: str) -> Any:
        """Return the value of a column that the package lacks."""
        if column not in self.own:
            return None
        default = dict(self.earlier).get(column, self.field(column).get_default())
        return json.dumps(default) if isinstance(default, (dict, list)) else default

    def is_required(self, column: str) -> bool:
        """Whether every row has a value there."""
        if column in self.own:
            return column in self.key or not self.field(column).null
        owners = [self.model._meta.get_field(link.attribute) for link in self.links if column in link.columns]
        return column in self.key or any(not getattr(field, "null", False) for field in owners)


def exported_versions() -> QuerySet[MetricVersion]:
    """Return the published and the retired versions."""
    return MetricVersion.objects.filter(Q(published_at__isnull=False) | Q(status=MetricVersion.Status.RETIRED))


def published_versions() -> QuerySet[MetricVersion]:
    """Return the published versions, the only ones whose numbers are exported."""
    return MetricVersion.objects.filter(published_at__isnull=False)


def published_scorings() -> QuerySet[Scoring]:
    """Return the scorings of published versions, without hidden models and entries that are held back."""
    scorings = Scoring.objects.filter(state=Work.State.DONE, metric_version__in=published_versions())
    return scorings.filter(is_listed("model__"), not_held())


def exported_control_sets() -> QuerySet[ControlSet]:
    """Return the control sets of exported versions."""
    return ControlSet.objects.filter(metric_version__in=exported_versions())


def finished_checks() -> QuerySet[ControlCheck]:
    """Return the checks that have a verdict."""
    return ControlCheck.objects.filter(state=Work.State.DONE, control_set__in=exported_control_sets())


def published_calibrations() -> QuerySet[Calibration]:
    """Return the finished calibrations of published versions."""
    return Calibration.objects.filter(state=Work.State.DONE, metric_version__in=published_versions())


def published_runs() -> QuerySet[Run]:
    """Return the runs behind published numbers."""
    return Run.objects.filter(pk__in=published_scorings().values("run"))


def referenced_artefacts() -> QuerySet[Artefact]:
    """Return the artefacts that rows of other tables refer to."""
    sources: list[tuple[QuerySet[Any], tuple[str, ...]]] = [
        (EvaluationSet.objects.all(), ("artefact", "prompt_scores", "continuations", "continuation_scores")),
        (exported_versions(), ("prompt_scores",)),
        (published_runs(), ("artefact",)),
        (published_scorings(), ("artefact", "replicates")),
        (exported_control_sets(), ("items", "reference")),
        (finished_checks(), ("artefact",)),
        (published_calibrations(), ("artefact",)),
    ]
    condition = Q()
    for rows, fields in sources:
        for field in fields:
            condition |= Q(pk__in=rows.filter(**{f"{field}__isnull": False}).values(field))
    return Artefact.objects.filter(condition)


def models_without_places() -> QuerySet[LanguageModel]:
    """Return all listed models. Folders and addresses of the operator are replaced."""
    public = Q(source__in=[LanguageModel.Source.HUB, LanguageModel.Source.BUNDLED]) | Q(location="")
    replacement = Concat(Value(ELSEWHERE), F("slug"), output_field=models.TextField())
    place = Case(When(public, then=F("location")), default=replacement, output_field=models.TextField())
    return LanguageModel.objects.listed().annotate(place=place)


def identities_of_listed() -> QuerySet[ModelIdentity]:
    """Return the models that listed entries are evidence about."""
    return ModelIdentity.objects.filter(pk__in=LanguageModel.objects.listed().values("identity"))


def public_events() -> QuerySet[AuditEvent]:
    """Return the events of the public change log, without those of hidden models."""
    person = Q(actor__isnull=False) | Q(detail__by_operator=True)
    hidden_slugs = LanguageModel.objects.hidden_slugs()
    # has_key: the comparison alone is neither true nor false of an event that names no model, and would leave it out.
    names_hidden_model = Q(detail__has_key="model", detail__model__in=hidden_slugs)
    is_of_hidden_model = Q(subject__in=[f"model {slug}" for slug in hidden_slugs]) | names_hidden_model
    events = AuditEvent.objects.exclude(is_of_hidden_model) if hidden_slugs else AuditEvent.objects.all()
    return events.filter(verb__in=OF_VERB).annotate(
        by_operator=Case(When(person, then=Value(True)), default=Value(False))
    )


def ended_rescorings() -> QuerySet[Rescoring]:
    """Return the rescorings that have ended."""
    rescorings = Rescoring.objects.exclude(pk__in=Rescoring.objects.active())
    return rescorings.filter(from_version__in=exported_versions(), to_version__in=exported_versions())


VERSION = PackageLink("metric_version", "versions", ("metric", "version"))
MODEL = PackageLink("model", "models", ("model",))
METRIC = PackageLink("metric", "metrics", ("metric",))
DONE = (("state", Work.State.DONE.value),)


def link_artefact(attribute: str) -> PackageLink:
    """Make a link to an artefact by its sha256, in a column with the attribute's name."""
    return PackageLink(attribute, "artefacts", (attribute,))


# In the order in which an import makes them: what a row refers to comes before it.
TABLES = (
    PackageTable(
        "artefacts",
        "Files that texts, outputs and scores are kept in, by the hash of their bytes",
        Artefact,
        referenced_artefacts,
        ("sha256",),
        ("sha256", "kind", "rows", "size", "schema_version", "created_at", "state"),
        added=("state",),
    ),
    PackageTable(
        "evaluation_sets",
        "Frozen texts that models are evaluated on",
        EvaluationSet,
        EvaluationSet.objects.all,
        ("slug", "version"),
        (
            *("slug", "version", "title", "kind", "licence", "citation", "source", "languages", "notice", "counts"),
            *("irregularities", "created_at"),
        ),
        tuple(map(link_artefact, ("artefact", "prompt_scores", "continuations", "continuation_scores"))),
        added=("irregularities", "source", "languages"),
    ),
    PackageTable(
        "protocols",
        "How outputs are collected",
        Protocol,
        Protocol.objects.all,
        ("sha256",),
        ("sha256", "method", "parameters"),
        (PackageLink("evaluation_set", "evaluation_sets", ("evaluation_set", "evaluation_set_version")),),
    ),
    PackageTable(
        "metrics",
        "What is measured, on what, by which scorer",
        Metric,
        Metric.objects.all,
        ("slug",),
        (
            *("slug", "title", "summary", "scorer", "formula_name", "measure", "position", "drift_policy"),
            *("outdated_policy", "flag_policy", "most_missing", "brake_after", "labels"),
        ),
        (
            PackageLink("protocol", "protocols", ("protocol",)),
            PackageLink("chat_protocol", "protocols", ("chat_protocol",)),
        ),
        added=("flag_policy", "most_missing", "brake_after", "labels", "chat_protocol"),
    ),
    PackageTable(
        "identities",
        "Models as their makers know them, which rows of `models` are evidence about",
        ModelIdentity,
        identities_of_listed,
        ("slug",),
        ("slug", "name", "organisation", "family", "parameters", "licence", "hub_id", "aliases", "created_at"),
        since=2,
    ),
    PackageTable(
        "models",
        "Language models, a row a revision",
        LanguageModel,
        models_without_places,
        ("slug",),
        (
            *("slug", *FIELDS, "kind", "source", "location", "revision", "parameters", "layers", "heads"),
            *("hidden_size", "access", "created_at", "source_name"),
            *AS_RUN,
            "service_changed_at",
        ),
        (PackageLink("identity", "identities", ("identity",)),),
        paths=(("location", "place"),),
        added=(
            *(name for name in FIELDS if name not in FIRST_FIELDS),
            "source_name",
            "identity",
            *AS_RUN,
            "service_changed_at",
        ),
    ),
    PackageTable(
        "versions",
        "Metric versions: everything that fixes a metric's numbers",
        MetricVersion,
        exported_versions,
        ("metric", "number"),
        (
            *("number", "provenance", "scorer", "scorer_fingerprint", "attributes", "undeclared", "formula_version"),
            *("epoch", "source", "decimals", "most_missing"),
            *("fallback_measure", "status", "created_at", "published_at"),
        ),
        (
            METRIC,
            PackageLink("protocol", "protocols", ("protocol",)),
            PackageLink("chat_protocol", "protocols", ("chat_protocol",)),
            link_artefact("prompt_scores"),
            PackageLink("opened_because", "checks", ("opened_because",), late=True),
        ),
        added=("attributes", "undeclared", "most_missing", "fallback_measure", "chat_protocol"),
    ),
    PackageTable(
        "runs",
        "Outputs of a model under a protocol, collected once",
        Run,
        published_runs,
        ("model", "protocol", "epoch"),
        ("epoch", "environment", "special_tokens", "loaded_files", "tokenizer_report", "self_test", "chat", *TIMES),
        (MODEL, PackageLink("protocol", "protocols", ("protocol",)), link_artefact("artefact")),
        DONE,
        added=("loaded_files", "tokenizer_report", "self_test", "chat"),
    ),
    PackageTable(
        "scorings",
        "Entries: a model under a metric version",
        Scoring,
        published_scorings,
        ("metric", "version", "model"),
        ("scored_at", "texts", "texts_missing", "lost_files", *TIMES),
        (
            VERSION,
            MODEL,
            PackageLink("run", "runs", ("model", "run_protocol", "run_epoch")),
            link_artefact("artefact"),
            link_artefact("replicates"),
        ),
        DONE,
        added=("texts", "texts_missing", "lost_files"),
    ),
    PackageTable(
        "entry_checks",
        "Entries that stood out and are ranked: what was found, and why a moderator released it",
        EntryCheck,
        lambda: EntryCheck.objects.filter(scoring__in=published_scorings()),
        ("metric", "version", "model"),
        ("flags", "state", "reason", "decided_at", "created_at"),
        (PackageLink("scoring", "scorings", ("metric", "version", "model")),),
        since=4,
    ),
    PackageTable(
        "results",
        "Numbers: a measure of an entry on a slice",
        Result,
        lambda: Result.objects.filter(scoring__in=published_scorings()),
        ("metric", "version", "model", "measure", "slice"),
        (
            *("measure", "slice", "value", "ci_low", "ci_high", "n", "missing", "published_rank", "p_value"),
            *("p_adjusted", "missing_texts", "worst_low", "worst_high", "derived", "interval_derived"),
        ),
        (PackageLink("scoring", "scorings", ("metric", "version", "model")),),
        added=("missing_texts", "worst_low", "worst_high", "derived", "interval_derived"),
    ),
    PackageTable(
        "standings",
        "Ranks, as published",
        Standing,
        lambda: Standing.objects.filter(is_listed("model__"), metric_version__in=published_versions()),
        ("metric", "version", "measure", "slice", "population", "model"),
        ("measure", "slice", "population", "rank", "rank_low", "rank_high", "value"),
        (VERSION, MODEL, PackageLink("result", "results", ("metric", "version", "model", "measure", "slice"))),
    ),
    PackageTable(
        "outdated",
        "Entries that could not be scored again under a version",
        OutdatedEntry,
        lambda: OutdatedEntry.objects.filter(
            is_listed("model__"), metric_version__in=published_versions(), last_scoring__in=published_scorings()
        ),
        ("metric", "version", "model"),
        ("reason",),
        (VERSION, MODEL, PackageLink("last_scoring", "scorings", ("metric", "last_version", "model"))),
    ),
    PackageTable(
        "control_sets",
        "Frozen items that watch a version's scorer",
        ControlSet,
        exported_control_sets,
        ("metric", "version"),
        ("noise", "check_version", "fingerprint", "environment", "created_at"),
        (VERSION, link_artefact("items"), link_artefact("reference")),
        added=("check_version",),
        earlier=(("check_version", 1),),
    ),
    PackageTable(
        "checks",
        "Control checks, with what they found",
        ControlCheck,
        finished_checks,
        ("id",),
        ("id", "trigger", "verdict", "fingerprint", "environment", "statistics", *TIMES),
        (METRIC, PackageLink("control_set", "control_sets", ("metric", "version")), link_artefact("artefact")),
        DONE,
    ),
    PackageTable(
        "calibrations",
        "Calibrations: report cards of a version's scorer on labelled texts",
        Calibration,
        published_calibrations,
        ("metric", "version", "evaluation_set", "evaluation_set_version"),
        ("fingerprint", "machine", "cards", *TIMES),
        (
            VERSION,
            PackageLink("evaluation_set", "evaluation_sets", ("evaluation_set", "evaluation_set_version")),
            link_artefact("artefact"),
        ),
        DONE,
        since=3,
    ),
    PackageTable(
        "rescorings",
        "Rescorings: all entries of a metric, from one version to the next",
        Rescoring,
        ended_rescorings,
        ("metric", "from_version", "to_version"),
        ("state", "done", "total", "reason", "by_upgrade", "created_at", "finished_at"),
        (
            METRIC,
            PackageLink("from_version", "versions", ("metric", "from_version")),
            PackageLink("to_version", "versions", ("metric", "to_version")),
        ),
        added=("by_upgrade",),
    ),
    PackageTable(
        "retired_scorers",
        "Scorers that score nothing new; what they scored stays",
        RetiredScorer,
        RetiredScorer.objects.all,
        ("name",),
        ("name", "reason", "retired_at"),
        since=4,
    ),
    PackageTable(
        "events",
        "The public change log",
        AuditEvent,
        public_events,
        (),
        ("verb", "subject", "detail", "at", BY_OPERATOR),
    ),
)
BY_NAME = {table.name: table for table in TABLES}


def public_detail(detail: dict[str, Any], hidden_slugs: Collection[str]) -> dict[str, Any]:
    """Return the part of an event's detail that the change log shows."""
    public = {name: value for name, value in detail.items() if name in DETAILS}
    if REASONS in public:
        public[REASONS] = {slug: reason for slug, reason in public[REASONS].items() if slug not in hidden_slugs}
    if NAMES_ALONE in detail:
        public[NAMES_ALONE] = dict.fromkeys(detail[NAMES_ALONE])
    return public


def read_link_key(link: PackageLink, row: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return the key in a row's link; None if the link is empty."""
    key = tuple(row[column] for column in link.columns)
    return None if None in key else key


def own_of(table: PackageTable) -> Iterator[str]:
    """List the columns that are fields of the model."""
    return (column for column in table.own if column != BY_OPERATOR)
