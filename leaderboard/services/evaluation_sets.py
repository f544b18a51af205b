"""Evaluation sets: declared from the catalogue, imported whole or not at all."""

from pathlib import Path

from django.db import transaction
from django.db.models import Max

from leaderboard.models import EvaluationSet
from leaderboard.services import artefacts
from leaderboard.services.audit import record
from scoring.evaluation_sets import CatalogueEntry, LabelledSentence, counts, get, read_safenlp, to_table


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
    """Import a labelled set in the SafeNLP format from `path`; see `import_sentences`. Raises EvaluationSetError."""
    return import_sentences(get(slug), read_safenlp(path))


def import_sentences(entry: CatalogueEntry, sentences: list[LabelledSentence]) -> tuple[EvaluationSet, bool]:
    """Freeze `sentences` as a version of the set. Returns its row, and whether anything was new.

    The same texts again change nothing; other texts under the same name become the next version, and numbers measured
    on the one before keep meaning what they meant.
    """
    artefact = artefacts.store(to_table(sentences), "labelled_sentences")
    with transaction.atomic():
        declared = declare(entry)
        same = EvaluationSet.objects.filter(slug=entry.name, artefact=artefact).first()
        if same:
            return same, False
        if declared.artefact is not None:
            last = EvaluationSet.objects.filter(slug=entry.name).aggregate(last=Max("version"))["last"]
            declared.pk, declared.version = None, last + 1
            declared._state.adding = True
        declared.artefact, declared.counts = artefact, counts(sentences)
        declared.save()
        record(
            "import evaluation set", f"evaluation set {declared}", {"texts": len(sentences), "sha256": artefact.sha256}
        )
    return declared, True
