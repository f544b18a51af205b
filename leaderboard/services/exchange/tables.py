"""The tables of a package, declared once: what is exported, how rows refer to each other, and what an import makes.

A row is named by the natural key of its table, as in (metric, version, model), never by the number that a database gave
it. What is not public is in no table: users, tokens, submissions, who did something, work that is under way, where the
operator keeps models.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db import models
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Concat

from leaderboard.models import (
    Artefact,
    AuditEvent,
    ControlCheck,
    ControlSet,
    EvaluationSet,
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Protocol,
    Rescoring,
    Result,
    Run,
    Scoring,
    Standing,
    Work,
    not_held,
)
from leaderboard.models.language_models import listed
from leaderboard.queries.changes import OF_VERB

ELSEWHERE = "elsewhere:"  # in place of a folder or an address of the board that a model was measured on
# What the change log tells of an event. Whatever else is on record of it stays there.
DETAILS = frozenset(
    (
        *("check", "entries", "from", "model", "note", "outdated", "reason", "reasons", "revision", "sha256", "source"),
        *("texts", "to", "version"),
    )
)
BY_OPERATOR = "by_operator"  # of an imported event that a person of the other board caused
TIMES = ("created_at", "started_at", "finished_at", "done", "total", "seconds")


@dataclass(frozen=True)
class Link:
    """A foreign key of the model, and the columns that hold the key of the row it refers to."""

    attribute: str
    table: str
    columns: tuple[str, ...]
    late: bool = False  # set when all tables are there: the table that it refers to comes after


@dataclass(frozen=True)
class Table:
    """A table of the package: rows of `model`, chosen by `rows`.

    `own`: fields of the model that are columns by the same name; `links` give the other columns. `constant`: what an
    import sets without being told. `paths`: where a column's value comes from, where not from the field. `added`:
    columns that packages of an earlier Plumbline lack; `earlier`: what stands for such a column where that is not the
    default of its field.
    """

    name: str
    title: str
    model: type[models.Model]
    rows: Callable[[], QuerySet[Any]]
    key: tuple[str, ...]
    own: tuple[str, ...]
    links: tuple[Link, ...] = ()
    constant: tuple[tuple[str, Any], ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    earlier: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def columns(self) -> list[str]:
        """The key first."""
        linked = [column for link in self.links for column in link.columns]
        return list(dict.fromkeys([*self.key, *linked, *self.own]))

    @property
    def path(self) -> str:
        """The file in the package."""
        return f"tables/{self.name}.parquet"

    def lookup(self, column: str) -> str:
        """Where Django finds the value of a column."""
        if column in dict(self.paths):
            return dict(self.paths)[column]
        if column in self.own:
            return column
        link, at = self.link_of(column)
        other = BY_NAME[link.table]
        return f"{link.attribute}__{other.lookup(other.key[at])}"

    def link_of(self, column: str) -> tuple[Link, int]:
        """The link that a column is of, and its place in it."""
        return next((link, link.columns.index(column)) for link in self.links if column in link.columns)

    def field(self, column: str) -> "models.Field[Any, Any]":
        """The model's field that says what a column may hold; of a link, the other table's."""
        if column == BY_OPERATOR:
            return models.BooleanField(help_text="Whether a person did it; the board itself otherwise.")
        if column in self.own:
            found = self.model._meta.get_field(column)
            assert isinstance(found, models.Field)  # noqa: S101 (for mypy: columns are no reverse relations)
            return found
        link, at = self.link_of(column)
        other = BY_NAME[link.table]
        return other.field(other.key[at])

    def may_lack(self, column: str) -> bool:
        """Whether packages of an earlier Plumbline lack the column."""
        return column in self.added

    def stand_in(self, column: str) -> Any:
        """What a column holds, in a package that lacks it."""
        default = dict(self.earlier).get(column, self.field(column).get_default())
        return json.dumps(default) if isinstance(default, (dict, list)) else default

    def required(self, column: str) -> bool:
        """Whether every row has a value there."""
        if column in self.own:
            return column in self.key or not self.field(column).null
        owners = [self.model._meta.get_field(link.attribute) for link in self.links if column in link.columns]
        return column in self.key or any(not getattr(field, "null", False) for field in owners)


def shown() -> QuerySet[MetricVersion]:
    """Versions that readers saw, and the numbers of those that were given up."""
    return MetricVersion.objects.filter(Q(published_at__isnull=False) | Q(status=MetricVersion.Status.RETIRED))


def published() -> QuerySet[MetricVersion]:
    """Versions that readers saw: the only ones whose numbers are exported."""
    return MetricVersion.objects.filter(published_at__isnull=False)


def scored() -> QuerySet[Scoring]:
    """Entries of published versions, but for models that are hidden and entries that are held back."""
    done = Scoring.objects.filter(state=Work.State.DONE, metric_version__in=published())
    return done.filter(listed("model__"), not_held())


def watched() -> QuerySet[ControlSet]:
    """Control sets of exported versions."""
    return ControlSet.objects.filter(metric_version__in=shown())


def checked() -> QuerySet[ControlCheck]:
    """Checks that came to a verdict."""
    return ControlCheck.objects.filter(state=Work.State.DONE, control_set__in=watched())


def collected() -> QuerySet[Run]:
    """Runs that published numbers were made from."""
    return Run.objects.filter(state=Work.State.DONE, pk__in=scored().values("run"))


def referred() -> QuerySet[Artefact]:
    """Artefacts that rows of other tables name."""
    sources: list[tuple[QuerySet[Any], tuple[str, ...]]] = [
        (EvaluationSet.objects.all(), ("artefact", "prompt_scores", "continuations", "continuation_scores")),
        (shown(), ("prompt_scores",)),
        (collected(), ("artefact",)),
        (scored(), ("artefact", "replicates")),
        (watched(), ("items", "reference")),
        (checked(), ("artefact",)),
    ]
    named = Q()
    for rows, fields in sources:
        for field in fields:
            named |= Q(pk__in=rows.filter(**{f"{field}__isnull": False}).values(field))
    return Artefact.objects.filter(named)


def models_without_places() -> QuerySet[LanguageModel]:
    """All models that pages name; of those in a folder or behind an address of the operator, not where."""
    public = Q(source__in=[LanguageModel.Source.HUB, LanguageModel.Source.BUNDLED]) | Q(location="")
    hidden = Concat(Value(ELSEWHERE), F("slug"), output_field=models.TextField())
    place = Case(When(public, then=F("location")), default=hidden, output_field=models.TextField())
    return LanguageModel.objects.listed().annotate(place=place)


def public_events() -> QuerySet[AuditEvent]:
    """What the change log tells, but for models that are hidden."""
    person = Q(actor__isnull=False) | Q(detail__by_operator=True)
    hidden = list(LanguageModel.objects.exclude(listed()).values_list("slug", flat=True))
    about = Q(subject__in=[f"model {slug}" for slug in hidden]) | Q(detail__model__in=hidden)
    named = AuditEvent.objects.exclude(about) if hidden else AuditEvent.objects.all()
    return named.filter(verb__in=OF_VERB).annotate(
        by_operator=Case(When(person, then=Value(True)), default=Value(False))
    )


def ended_rescorings() -> QuerySet[Rescoring]:
    """Those that are over."""
    over = Rescoring.objects.exclude(pk__in=Rescoring.objects.active())
    return over.filter(from_version__in=shown(), to_version__in=shown())


VERSION = Link("metric_version", "versions", ("metric", "version"))
MODEL = Link("model", "models", ("model",))
METRIC = Link("metric", "metrics", ("metric",))
DONE = (("state", Work.State.DONE.value),)


def of_artefact(attribute: str) -> Link:
    """A link to an artefact by its sha256, in a column of the attribute's name."""
    return Link(attribute, "artefacts", (attribute,))


# In the order in which an import makes them: what a row refers to comes before it.
TABLES = (
    Table(
        "artefacts",
        "Files that texts, outputs and scores are kept in, by the hash of their bytes",
        Artefact,
        referred,
        ("sha256",),
        ("sha256", "kind", "rows", "size", "schema_version", "created_at", "state"),
        added=("state",),
    ),
    Table(
        "evaluation_sets",
        "Frozen texts that models are evaluated on",
        EvaluationSet,
        EvaluationSet.objects.all,
        ("slug", "version"),
        ("slug", "version", "title", "kind", "licence", "citation", "notice", "counts", "irregularities", "created_at"),
        tuple(map(of_artefact, ("artefact", "prompt_scores", "continuations", "continuation_scores"))),
        added=("irregularities",),
    ),
    Table(
        "protocols",
        "How outputs are collected",
        Protocol,
        Protocol.objects.all,
        ("sha256",),
        ("sha256", "method", "parameters"),
        (Link("evaluation_set", "evaluation_sets", ("evaluation_set", "evaluation_set_version")),),
    ),
    Table(
        "metrics",
        "What is measured, on what, by which scorer",
        Metric,
        Metric.objects.all,
        ("slug",),
        (
            *("slug", "title", "summary", "scorer", "formula_name", "measure", "position", "drift_policy"),
            *("outdated_policy", "flag_policy", "most_missing", "labels"),
        ),
        (Link("protocol", "protocols", ("protocol",)),),
        added=("flag_policy", "most_missing", "labels"),
    ),
    Table(
        "models",
        "Language models, a row a revision",
        LanguageModel,
        models_without_places,
        ("slug",),
        (
            *("slug", "name", "family", "kind", "source", "location", "revision", "licence", "parameters", "layers"),
            *("heads", "hidden_size", "context", "access", "notes", "created_at"),
        ),
        paths=(("location", "place"),),
    ),
    Table(
        "versions",
        "Metric versions: everything that fixes a metric's numbers",
        MetricVersion,
        shown,
        ("metric", "number"),
        (
            *("number", "provenance", "scorer", "scorer_fingerprint", "attributes", "undeclared", "formula_version"),
            *("epoch", "source", "decimals", "most_missing"),
            *("fallback_measure", "status", "created_at", "published_at"),
        ),
        (
            METRIC,
            Link("protocol", "protocols", ("protocol",)),
            of_artefact("prompt_scores"),
            Link("opened_because", "checks", ("opened_because",), late=True),
        ),
        added=("attributes", "undeclared", "most_missing", "fallback_measure"),
    ),
    Table(
        "runs",
        "Outputs of a model under a protocol, collected once",
        Run,
        collected,
        ("model", "protocol", "epoch"),
        ("epoch", "environment", "special_tokens", "loaded_files", "tokenizer_report", "self_test", *TIMES),
        (MODEL, Link("protocol", "protocols", ("protocol",)), of_artefact("artefact")),
        DONE,
        added=("loaded_files", "tokenizer_report", "self_test"),
    ),
    Table(
        "scorings",
        "Entries: a model under a metric version",
        Scoring,
        scored,
        ("metric", "version", "model"),
        ("scored_at", "texts", "texts_missing", "lost_files", *TIMES),
        (
            VERSION,
            MODEL,
            Link("run", "runs", ("model", "run_protocol", "run_epoch")),
            of_artefact("artefact"),
            of_artefact("replicates"),
        ),
        DONE,
        added=("texts", "texts_missing", "lost_files"),
    ),
    Table(
        "results",
        "Numbers: a measure of an entry on a slice",
        Result,
        lambda: Result.objects.filter(scoring__in=scored()),
        ("metric", "version", "model", "measure", "slice"),
        (
            *("measure", "slice", "value", "ci_low", "ci_high", "n", "missing", "published_rank", "p_value"),
            *("p_adjusted", "missing_texts", "worst_low", "worst_high", "derived"),
        ),
        (Link("scoring", "scorings", ("metric", "version", "model")),),
        added=("missing_texts", "worst_low", "worst_high", "derived"),
    ),
    Table(
        "standings",
        "Ranks, as published",
        Standing,
        lambda: Standing.objects.filter(listed("model__"), metric_version__in=published()),
        ("metric", "version", "measure", "slice", "population", "model"),
        ("measure", "slice", "population", "rank", "rank_low", "rank_high", "value"),
        (VERSION, MODEL, Link("result", "results", ("metric", "version", "model", "measure", "slice"))),
    ),
    Table(
        "outdated",
        "Entries that could not be scored again under a version",
        OutdatedEntry,
        lambda: OutdatedEntry.objects.filter(
            listed("model__"), metric_version__in=published(), last_scoring__in=scored()
        ),
        ("metric", "version", "model"),
        ("reason",),
        (VERSION, MODEL, Link("last_scoring", "scorings", ("metric", "last_version", "model"))),
    ),
    Table(
        "control_sets",
        "Frozen items that watch a version's scorer",
        ControlSet,
        watched,
        ("metric", "version"),
        ("noise", "check_version", "fingerprint", "environment", "created_at"),
        (VERSION, of_artefact("items"), of_artefact("reference")),
        added=("check_version",),
        earlier=(("check_version", 1),),
    ),
    Table(
        "checks",
        "Control checks, with what they found",
        ControlCheck,
        checked,
        ("id",),
        ("id", "trigger", "verdict", "fingerprint", "environment", "statistics", *TIMES),
        (METRIC, Link("control_set", "control_sets", ("metric", "version")), of_artefact("artefact")),
        DONE,
    ),
    Table(
        "rescorings",
        "Rescorings: all entries of a metric, from one version to the next",
        Rescoring,
        ended_rescorings,
        ("metric", "from_version", "to_version"),
        ("state", "done", "total", "reason", "by_upgrade", "created_at", "finished_at"),
        (
            METRIC,
            Link("from_version", "versions", ("metric", "from_version")),
            Link("to_version", "versions", ("metric", "to_version")),
        ),
        added=("by_upgrade",),
    ),
    Table(
        "events",
        "The public change log",
        AuditEvent,
        public_events,
        (),
        ("verb", "subject", "detail", "at", BY_OPERATOR),
    ),
)
BY_NAME = {table.name: table for table in TABLES}


def public_detail(detail: dict[str, Any]) -> dict[str, Any]:
    """What of an event's detail the change log tells."""
    return {name: value for name, value in detail.items() if name in DETAILS}


def linked(link: Link, row: dict[str, Any]) -> tuple[Any, ...] | None:
    """The key that a row's link holds; None where it refers to nothing."""
    key = tuple(row[column] for column in link.columns)
    return None if None in key else key


def own_of(table: Table) -> Iterator[str]:
    """The columns that are fields of the model."""
    return (column for column in table.own if column != BY_OPERATOR)
