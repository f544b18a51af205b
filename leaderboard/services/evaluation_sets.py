"""Evaluation sets: declared from the catalogue, imported whole or not at all."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.db import transaction
from django.db.models import Max

from leaderboard.models import Artefact, AuditVerb, EvaluationSet
from leaderboard.services import artefacts
from leaderboard.services.audit import record
from scoring.artefacts import ArtefactError
from scoring.evaluation_sets import (
    CatalogueEntry,
    LabelledSentence,
    LabelledText,
    Prompt,
    SetReading,
    get,
    read_label_rows,
    read_prompts,
    read_set,
    reading_of_prompts,
    reading_of_sentences,
    reading_of_texts,
)
from scoring.refusals import Refused

PUBLISHED = ("prompt_scores", "continuations", "continuation_scores")  # fields, of what may come with prompts


def declare(entry: CatalogueEntry) -> EvaluationSet:
    """The set's row, made without texts where there is none."""
    values = {
        "title": entry.title,
        "kind": entry.kind,
        "licence": entry.licence,
        "citation": entry.citation,
        "source": entry.source,
        "notice": entry.notice,
    }
    return EvaluationSet.objects.get_or_create(slug=entry.name, version=1, defaults=values)[0]


def import_file(slug: str, path: Path) -> tuple[EvaluationSet, bool]:
    """Import a set of the catalogue from `path`, in the format the catalogue names; see `freeze`.

    Raises UnknownEvaluationSetError, EvaluationSetError, OSError.
    """
    entry = get(slug)
    reading = read_set(entry, path)  # before anything is declared: a file that is refused leaves nothing behind
    return import_reading(declare(entry), reading)


def import_own_prompts(slug: str, title: str, licence: str, path: Path) -> tuple[EvaluationSet, bool]:
    """Import prompts of one's own, which no catalogue knows, under a slug of their own; see `freeze`."""
    prompts = read_prompts(path)
    values = {"title": title or slug, "licence": licence}
    with transaction.atomic():
        return import_prompts(begin_own_set(slug, EvaluationSet.Kind.PROMPTS, values), prompts)


def import_own_texts(
    slug: str, title: str, path: Path, *, licence: str, source: str, language: str
) -> tuple[EvaluationSet, bool]:
    """Import labelled texts of one's own, for report cards, under a slug of their own; see `freeze`.

    language: that of texts whose rows name none. Raises Refused where a licence, a source or the language of a text is
    missing, and UnreadableLabels.
    """
    for field, option, value in (("licence", "--licence", licence), ("source", "--from", source)):
        if not value.strip():
            raise Refused(f"{field}: is missing, and report cards say it; give it with {option}", field=field)
    rows = read_label_rows(path, language=language)
    nameless = next((row.id for row in rows if not row.language), None)
    if nameless is not None:
        raise Refused(
            f"language: the text {nameless} names none; fill the column, or give --language", field="language"
        )
    values = {"title": title or slug, "licence": licence, "source": source}
    with transaction.atomic():
        return import_texts(begin_own_set(slug, EvaluationSet.Kind.LABELLED_TEXTS, values), rows)


def begin_own_set(slug: str, kind: str, values: dict[str, str]) -> EvaluationSet:
    """The first version of a set of one's own. Raises Refused where the slug is that of a set of another kind."""
    texts = EvaluationSet.objects.get_or_create(slug=slug, version=1, defaults={**values, "kind": kind})[0]
    if texts.kind != kind:
        raise Refused(
            f"slug = {slug!r}: it is a set of {texts.get_kind_display().lower()}; choose another", field="slug"
        )
    return texts


def import_texts(first_version: EvaluationSet, rows: list[LabelledText]) -> tuple[EvaluationSet, bool]:
    """Freeze labelled texts as a version of the set; see `freeze`."""
    return import_reading(first_version, reading_of_texts(rows))


def import_sentences(entry: CatalogueEntry, sentences: list[LabelledSentence]) -> tuple[EvaluationSet, bool]:
    """Freeze labelled sentences as a version of the set, and keep what is irregular about them; see `freeze`."""
    return import_reading(declare(entry), reading_of_sentences(sentences))


def import_prompts(first_version: EvaluationSet, prompts: list[Prompt]) -> tuple[EvaluationSet, bool]:
    """Freeze prompts as a version of the set, and beside them what was published with them; see `freeze`."""
    return import_reading(first_version, reading_of_prompts(prompts))


def import_reading(first_version: EvaluationSet, reading: SetReading) -> tuple[EvaluationSet, bool]:
    """Freeze what was read as a version of the set, and keep what is irregular about it; see `freeze`."""
    published_artefacts = {
        field: artefacts.store(table, kind) for field, (kind, table) in reading.published.items() if table.num_rows
    }
    texts, new = freeze(first_version, reading.table, reading.kind, reading.counts, published_artefacts)
    if (texts.irregularities, texts.languages) != (reading.irregularities, reading.languages):
        texts.irregularities, texts.languages = reading.irregularities, reading.languages
        texts.save(update_fields=["irregularities", "languages"])
    return texts, new


def freeze(
    first_version: EvaluationSet,
    table: pa.Table,
    kind: str,
    counts: dict[str, Any],
    published_artefacts: dict[str, Artefact] | None = None,
) -> tuple[EvaluationSet, bool]:
    """Make `table` a version of the set that `first_version` begins.

    Returns its row, and whether anything was new. The same texts again change nothing; other texts under the same name
    become the next version, and numbers measured on the one before keep meaning what they meant.
    """
    same = frozen_already(first_version.slug, table, kind)
    if same:
        return same, False
    artefact = artefacts.store(table, kind)
    with transaction.atomic():
        same = EvaluationSet.objects.filter(slug=first_version.slug, artefact=artefact).first()
        if same:
            return same, False
        if first_version.artefact is not None:
            last = EvaluationSet.objects.filter(slug=first_version.slug).aggregate(last=Max("version"))["last"]
            first_version.pk, first_version.version = None, last + 1
            first_version._state.adding = True
        first_version.artefact, first_version.counts = artefact, counts
        for field in PUBLISHED:  # a version has what came with it, and nothing of the one before
            setattr(first_version, field, (published_artefacts or {}).get(field))
        first_version.save()
        record(
            AuditVerb.IMPORT_EVALUATION_SET,
            f"evaluation set {first_version}",
            {"texts": table.num_rows, "sha256": artefact.sha256},
        )
    return first_version, True


def frozen_already(slug: str, table: pa.Table, kind: str) -> EvaluationSet | None:
    """The version of the set that holds these texts, in a file that another release may have written otherwise."""
    versions = EvaluationSet.objects.filter(slug=slug, artefact__rows=table.num_rows, artefact__kind=kind)
    for version in versions.select_related("artefact"):
        with suppress(FileNotFoundError, ArtefactError):
            frozen_table = artefacts.load(version.artefact)
            if frozen_table.equals(table.select(frozen_table.column_names).cast(frozen_table.schema)):
                return version
    return None
