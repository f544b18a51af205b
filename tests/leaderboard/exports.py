"""What files and programs are given, what each is written from, and a small board that has some of all."""

import csv
import io
import json
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import Model
from django.test import Client
from django.urls import resolve

from leaderboard.models import AuditVerb, Incident, Metric, Submission
from leaderboard.models.clock import from_now
from leaderboard.services import artefacts
from leaderboard.services.audit import record
from leaderboard.services.succession import perform, request_succession
from scoring.artefacts import SCORE
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of
from tests.leaderboard.test_completeness import stored_fields
from tests.leaderboard.test_corrected import RATES, calibrate, card
from tests.leaderboard.test_record import PLAIN, STEEPER
from tests.leaderboard.test_scenarios import prompt_table

Names = set[str]


@dataclass(frozen=True)
class Source:
    """What rows are written from: a dataclass, a named tuple or a model.

    written: the columns of fields that are called otherwise; left_out: fields that no column has, with the reason.
    """

    table: Any
    written: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> Names:
        """The names of its fields."""
        if is_dataclass(self.table):
            return {one.name for one in fields(self.table)}
        if issubclass(self.table, Model):
            return stored_fields(self.table)
        return set(self.table._fields)

    @property
    def columns(self) -> Names:
        """The columns of fields that are called otherwise."""
        return {name for names in self.written.values() for name in ([names] if isinstance(names, str) else names)}


@dataclass(frozen=True)
class Export:
    """A file or an answer: an address of the board below, or the words of a command; CSV where they say so, else JSON.

    path: where in JSON the rows are. beside: columns that are computed for it, or say what it is of. answer: what a
    command would print, where it would have to do long work first.
    """

    target: str
    path: str = ""
    sources: tuple[Source, ...] = ()
    beside: Collection[str] = ()
    answer: Callable[[], Any] | None = None

    def __str__(self) -> str:
        return f"{self.target} {self.path}".strip()

    @property
    def place(self) -> str:
        """The name of its address, or its command."""
        return str(resolve(self.target.split("?")[0]).url_name) if self.target[0] == "/" else self.target.split()[0]

    def read(self, client: Client) -> Names:
        """Its columns, or the keys of its rows."""
        if self.answer:
            return read_keys(self.answer(), self.path)
        if self.target[0] == "/":
            response = client.get(self.target)
            text = response.content.decode()
            assert response.status_code == 200, text[:500]
        else:
            text = run(*shlex.split(self.target))
        return read_header(text) if "csv" in self.target else read_keys(json.loads(text), self.path)


def run(*words: str) -> str:
    """What a command prints."""
    output = io.StringIO()
    call_command(*words, stdout=output)
    return output.getvalue()


def read_header(text: str) -> Names:
    """The headings of CSV."""
    return set(next(csv.reader(io.StringIO(text))))


def read_keys(content: Any, path: str) -> Names:
    """The keys of all objects at a path, as in "entries.run": at least one; lists are looked through."""
    nodes = content if isinstance(content, list) else [content]
    for name in path.split(".") if path else ():
        inner_nodes = [node[name] for node in nodes]
        nodes = [item for node in inner_nodes for item in (node if isinstance(node, list) else [node])]
    objects = [node for node in nodes if isinstance(node, dict)]
    assert objects, f"nothing at {path}"
    return set().union(*objects)


def build_board() -> None:
    """Four models under two versions of a metric and a scorer of the other opinion, and what operators see."""
    careful, blunt = metric_of("careful", "profanity"), metric_of("blunt", "detoxify-original")
    runs = runs_on(careful)
    for made_with, scorer in (("1", PLAIN), ("2", STEEPER)):
        version = version_of(careful, made_with)
        version.keep_prompt_scores(artefacts.store(prompt_table(), "scores"))
        score_all(version, runs, scorer)
    calibrate(version, "starter", {"profanity": card(RATES)})
    successor = version_of(blunt, "1")
    successor.keep_prompt_scores(artefacts.store(rename_scores(prompt_table()), "scores"))
    score_all(successor, runs, {"toxicity": lambda scores: np.float32(0.9) - scores})
    add_rows_of_operators(careful)


def rename_scores(table: pa.Table) -> pa.Table:
    """The scores of the prompts as the other scorer calls them."""
    names = [name.replace(f"{SCORE}profanity", f"{SCORE}toxicity") for name in table.column_names]
    return table.rename_columns(names)


def add_rows_of_operators(metric: Metric) -> None:
    """A comparison of the scorers, a submission, an incident, and an event of the record."""
    perform(request_succession(metric, "detoxify-original", send=False))
    ada = User.objects.create_user("ada")
    Submission.objects.create(submitter=ada, form="hub", payload={"name": "Elm"}, state="moderated")
    Incident.objects.create(key="k", kind="drift", subject="metric careful", path="/drift/", opened_at=from_now(0))
    record(AuditVerb.RESTRICT_MODEL, "model alder", {"reason": "a test"}, ada)
