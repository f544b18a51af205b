"""Manifests: all that a published version is made of, for anyone to download and check without this board.

What may be downloaded is what the manifest of a published, measured version names: its entries' outputs, scores and
replicates (of models that are not withdrawn), its scorer's scores of the prompts, and the evaluation set with the
scores published beside it. The texts of a set are offensive, but public, and nothing can be checked without them: they
are passed on, with their licence, where one is stated for them, and else named by their hash only.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from leaderboard.models import (
    Artefact,
    EvaluationSet,
    LanguageModel,
    MetricVersion,
    Provenance,
    Scoring,
    Standing,
    Work,
    is_unranked,
    ranked_now,
)
from leaderboard.services.artefacts import open_whole
from leaderboard.services.build import code
from leaderboard.services.verify import Progress, damage, numbers_of
from scoring.manifest import FORMAT, MANIFEST, artefact_path
from scoring.refusals import Refused

UNSTATED = re.compile(r"\b(none|not)\s+stated\b", re.IGNORECASE)


def published_versions() -> QuerySet[MetricVersion]:
    """Versions that have a manifest."""
    return MetricVersion.objects.filter(published_at__isnull=False)


def entries() -> QuerySet[Scoring]:
    """What stands in the rankings of published, measured versions, or is shown there as not ranked.

    But for models that were withdrawn or hidden.
    """
    standings = Standing.objects.filter(metric_version=OuterRef("metric_version"), model=OuterRef("model"))
    return (
        Scoring.objects.filter(Exists(standings) | is_unranked(), state=Work.State.DONE)
        .filter(ranked_now("model__"), metric_version__in=published_versions())
        .select_related("model", "metric_version", "artefact", "replicates", "run__artefact", "run__protocol")
        .order_by("model__slug")
    )


def passes_on(texts: EvaluationSet) -> bool:
    """Whether the texts may be downloaded: a licence is stated for them."""
    return bool(texts.licence) and not UNSTATED.search(texts.licence)


def downloadable(sha256: str) -> Artefact | None:
    """The artefact of that hash, if anyone may download it; see above."""
    artefact = Artefact.objects.filter(sha256=sha256).first()
    if artefact is None:
        return None
    versions = published_versions().filter(provenance=Provenance.MEASURED)
    own = Q(artefact=artefact) | Q(replicates=artefact) | Q(run__artefact=artefact)
    sets = EvaluationSet.objects.filter(Q(artefact=artefact) | Q(prompt_scores=artefact))
    is_named = (
        entries().filter(own, metric_version__in=versions).exists()
        or versions.filter(prompt_scores=artefact).exists()
        or any(passes_on(texts) for texts in sets.filter(protocols__metric_versions__in=versions).distinct())
    )
    return artefact if is_named else None


def manifest(version: MetricVersion) -> dict[str, Any]:
    """What `version` is made of, as JSON can hold it, in a constant number of queries."""
    texts = version.protocol.evaluation_set
    scorings = list(entries().filter(metric_version=version).prefetch_related("results"))
    standings = version.standings.filter(model__in=[scoring.model_id for scoring in scorings])
    withheld = set() if passes_on(texts) else {texts.artefact_id, texts.prompt_scores_id}
    artefacts = [texts.artefact, texts.prompt_scores, version.prompt_scores] if version.measured else []
    for scoring in scorings:
        artefacts += [scoring.run.artefact if scoring.run else None, scoring.artefact, scoring.replicates]
    return {
        "plumbline_manifest": FORMAT,
        "metric": {"slug": version.metric.slug, "title": version.metric.title, "measure": version.first_measure},
        "version": {
            "number": version.number,
            "provenance": version.provenance,
            "status": version.status,
            "published_at": version.published_at and version.published_at.isoformat(),
            "source": version.source,
            "decimals": version.decimals,
            "epoch": version.epoch,
            "most_missing": version.most_missing,
        },
        "scorer": {
            "name": version.scorer,
            "fingerprint": version.scorer_fingerprint,
            "attributes": version.attributes,
            "undeclared": version.undeclared,
        },
        "formula": {"name": version.metric.formula_name, "version": version.formula_version},
        "protocol": {
            "method": version.protocol.method,
            "parameters": version.protocol.parameters,
            "sha256": version.protocol.sha256,
        },
        "chat_protocol": version.chat_protocol
        and {
            "method": version.chat_protocol.method,
            "parameters": version.chat_protocol.parameters,
            "sha256": version.chat_protocol.sha256,
        },
        "evaluation_set": {
            "slug": texts.slug,
            "version": texts.version,
            "title": texts.title,
            "licence": texts.licence,
            "citation": texts.citation,
            "source": texts.source,
            "notice": texts.notice,
            "artefact": _sha256(texts.artefact),
            "prompt_scores": _sha256(texts.prompt_scores),
        },
        "prompt_scores": _sha256(version.prompt_scores),
        "entries": [describe_entry(scoring) for scoring in scorings],
        "standings": [
            {"measure": measure, "slice": name, "population": population, "model": slug, "rank": rank}
            | {"rank_low": low, "rank_high": high}
            for measure, name, population, slug, rank, low, high in standings.values_list(
                "measure", "slice", "population", "model__slug", "rank", "rank_low", "rank_high"
            )
        ],
        "artefacts": {
            artefact.sha256: describe_artefact(artefact, artefact.pk not in withheld)
            for artefact in filter(None, artefacts)
        },
        "code": code(),
    }


def describe_entry(scoring: Scoring) -> dict[str, Any]:
    """One entry: whose, made from what, and its numbers."""
    model, run = scoring.model, scoring.run
    return {
        "model": {
            "slug": model.slug,
            "name": model.name,
            "family": model.family,
            "kind": model.kind,
            "interface": model.interface,
            "chat_template": model.chat_template or None,
            "source": model.source,
            "hub_id": model.location if model.source == LanguageModel.Source.HUB else None,
            "revision": model.revision,
            "precision": model.precision,
            "weight_format": model.weight_format,
            "licence": model.licence,
        },
        "run": run
        and {
            "artefact": _sha256(run.artefact),
            "epoch": run.epoch,
            "environment": run.environment,
            "special_tokens": run.special_tokens,
            "loaded_files": run.loaded_files,
            "self_test": run.self_test,
            "protocol": run.protocol.sha256,
            "chat": run.chat or None,
        },
        "scores": _sha256(scoring.artefact),
        "replicates": _sha256(scoring.replicates),
        "scored_at": scoring.scored_at and scoring.scored_at.isoformat(),
        "texts": scoring.texts,
        "texts_missing": scoring.texts_missing,
        "not_ranked": scoring.why_unranked or None,
        "results": [
            {"measure": result.measure, "slice": result.slice, "published_rank": result.published_rank}
            | {"derived": result.derived, "interval_derived": result.interval_derived}
            | numbers_of(result)
            for result in sorted(scoring.results.all(), key=lambda row: (row.measure, row.slice))
        ],
    }


def describe_artefact(artefact: Artefact, may_be_downloaded: bool) -> dict[str, Any]:
    """An artefact, and where to get it; no address where it is not passed on."""
    return {
        "kind": artefact.kind,
        "rows": artefact.rows,
        "size": artefact.size,
        "schema_version": artefact.schema_version,
        "path": artefact_path(artefact.sha256),
        "url": reverse("artefact", args=[artefact.sha256]) if may_be_downloaded else None,
    }


def _sha256(artefact: Artefact | None) -> str | None:
    return None if artefact is None else artefact.sha256


def write_folder(version: MetricVersion, folder: Path, progress: Progress = lambda _count, _total: None) -> Path:
    """Write the manifest of `version` and every artefact it names, texts included. Returns the manifest's path.

    Files that are already there whole are kept; each is written under another name first. Raises Refused, OSError.
    """
    content = manifest(version)
    artefacts = Artefact.objects.in_bulk(list(content["artefacts"]), field_name="sha256")
    (folder / "artefacts").mkdir(parents=True, exist_ok=True)
    for number, (sha256, artefact) in enumerate(sorted(artefacts.items()), start=1):
        wrong = damage(artefact)
        if wrong:
            raise Refused(f"{wrong}; run `manage.py verify {version.metric.slug}`")
        place(folder / artefact_path(sha256), _chunks(artefact))
        progress(number, len(artefacts))
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    place(folder / MANIFEST, iter([text.encode()]))
    return folder / MANIFEST


def place(target: Path, chunks: Iterator[bytes]) -> None:
    """Write a file whole or not at all."""
    temporary = target.with_name(f".{target.name}")
    with temporary.open("wb") as file:
        file.writelines(chunks)
    temporary.replace(target)


def _chunks(artefact: Artefact) -> Iterator[bytes]:
    with open_whole(artefact) as file:
        while piece := file.read(2**20):
            yield piece
