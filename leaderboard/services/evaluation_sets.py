"""Evaluation sets: declared from the catalogue, imported whole or not at all."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.db import transaction
from django.db.models import Max

from leaderboard.models import Artefact, EvaluationSet
from leaderboard.services import artefacts
from leaderboard.services.audit import record
from scoring.artefacts import ArtefactError
from scoring.evaluation_sets import (
    CatalogueEntry,
    EvaluationSetError,
    LabelledSentence,
    Prompt,
    counts,
    get,
    irregularities,
    prompt_scores_table,
    prompts_table,
    published_continuations_table,
    published_scores_table,
    read_prompts,
    read_safenlp,
    to_table,
)

PUBLISHED = ("prompt_scores", "continuations", "continuation_scores")  # fields, of what may come with prompts


def declare(entry: CatalogueEntry) -> EvaluationSet:
    """The set's row, made without texts where there is none."""
    described = {
        "title": entry.title,
        "kind": entry.kind,
        "licence": entry.licence,
        "citation": entry.citation,
        "notice": entry.notice,
    }
    return EvaluationSet.objects.get_or_create(slug=entry.name, version=1, defaults=described)[0]


def import_file(slug: str, path: Path) -> tuple[EvaluationSet, bool]:
    """Import a set of the catalogue from `path`, in the format the catalogue names; see `freeze`.

    Raises UnknownEvaluationSetError, EvaluationSetError, OSError.
    """
    entry = get(slug)
    if entry.format == "safenlp":
        return import_sentences(entry, read_safenlp(path))
    if entry.format == "prompts":
        prompts = read_prompts(path)
        return import_prompts(declare(entry), prompts)
    raise EvaluationSetError(f"{slug}: nothing reads this set yet")


def import_own_prompts(slug: str, title: str, licence: str, path: Path) -> tuple[EvaluationSet, bool]:
    """Import prompts of one's own, which no catalogue knows, under a slug of their own; see `freeze`."""
    prompts = read_prompts(path)
    described = {"title": title or slug, "kind": EvaluationSet.Kind.PROMPTS, "licence": licence}
    with transaction.atomic():
        declared = EvaluationSet.objects.get_or_create(slug=slug, version=1, defaults=described)[0]
        return import_prompts(declared, prompts)


def import_sentences(entry: CatalogueEntry, sentences: list[LabelledSentence]) -> tuple[EvaluationSet, bool]:
    """Freeze labelled sentences as a version of the set, and keep what is irregular about them; see `freeze`."""
    texts, new = freeze(declare(entry), to_table(sentences), "labelled_sentences", counts(sentences))
    texts.irregularities = irregularities(sentences)
    texts.save(update_fields=["irregularities"])
    return texts, new


def import_prompts(declared: EvaluationSet, prompts: list[Prompt]) -> tuple[EvaluationSet, bool]:
    """Freeze prompts as a version of the set, and beside them what was published with them; see `freeze`."""
    groups = Counter(prompt.group for prompt in prompts if prompt.group is not None)
    published = {
        field: artefacts.store(table, kind)
        for field, kind, table in (
            ("prompt_scores", "prompt_scores", prompt_scores_table(prompts)),
            ("continuations", "published_continuations", published_continuations_table(prompts)),
            ("continuation_scores", "prompt_scores", published_scores_table(prompts)),
        )
        if table.num_rows
    }
    return freeze(declared, prompts_table(prompts), "prompts", dict(groups), published)


def freeze(
    declared: EvaluationSet,
    table: pa.Table,
    kind: str,
    counted: dict[str, Any],
    published: dict[str, Artefact] | None = None,
) -> tuple[EvaluationSet, bool]:
    """Make `table` a version of the set that `declared` is the first version of.

    Returns its row, and whether anything was new. The same texts again change nothing; other texts under the same name
    become the next version, and numbers measured on the one before keep meaning what they meant.
    """
    same = frozen_already(declared.slug, table, kind)
    if same:
        return same, False
    artefact = artefacts.store(table, kind)
    with transaction.atomic():
        same = EvaluationSet.objects.filter(slug=declared.slug, artefact=artefact).first()
        if same:
            return same, False
        if declared.artefact is not None:
            last = EvaluationSet.objects.filter(slug=declared.slug).aggregate(last=Max("version"))["last"]
            declared.pk, declared.version = None, last + 1
            declared._state.adding = True
        declared.artefact, declared.counts = artefact, counted
        for field in PUBLISHED:  # a version has what came with it, and nothing of the one before
            setattr(declared, field, (published or {}).get(field))
        declared.save()
        record(
            "import evaluation set",
            f"evaluation set {declared}",
            {"texts": table.num_rows, "sha256": artefact.sha256},
        )
    return declared, True


def frozen_already(slug: str, table: pa.Table, kind: str) -> EvaluationSet | None:
    """The version of the set that holds these texts, in a file that another release may have written otherwise."""
    versions = EvaluationSet.objects.filter(slug=slug, artefact__rows=table.num_rows, artefact__kind=kind)
    for version in versions.select_related("artefact"):
        with suppress(FileNotFoundError, ArtefactError):
            stored = artefacts.load(version.artefact)
            if stored.equals(table.select(stored.column_names).cast(stored.schema)):
                return version
    return None
