"""Write a package: the tables at one moment, described as a Frictionless Data Package."""

import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from leaderboard.exchange.schemas import arrow_schema, describe_table, kind_of, to_cell
from leaderboard.exchange.tables import TABLES, PackageTable, public_detail
from leaderboard.models import Artefact, EvaluationSet, LanguageModel, MetricVersion, Provenance, Result
from leaderboard.models.control import public_statistics
from leaderboard.queries.stamp import board_stamp
from leaderboard.services.artefacts import open_whole
from leaderboard.services.build import code
from leaderboard.services.manifest import downloadable, place
from leaderboard.services.verify import damage
from scoring.artefacts import SCHEMAS
from scoring.manifest import artefact_path
from scoring.refusals import Refused

FORMAT = 4  # of a package; an import refuses newer ones
DESCRIPTION = "datapackage.json"
PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
PARQUET = "application/vnd.apache.parquet"
LICENCE = {"name": "Apache-2.0", "title": "Apache License 2.0", "path": "https://www.apache.org/licenses/LICENSE-2.0"}
NOT_STATED = "not stated"
ROWS = 2**15  # of a chunk: what is in memory at a time
TRIES = 3  # to read all tables while the board stands still

Progress = Callable[[str, int, int], None]  # what is written, steps done, and in all


@dataclass(frozen=True)
class Exported:
    """A written package: its path, rows by table, artefacts, bytes, and the hash of its description."""

    path: Path
    rows: dict[str, int]
    artefacts: int
    bytes: int
    sha256: str


def write_zip(target: Path, with_artefacts: bool = False, progress: Progress = lambda *_: None) -> Exported:
    """Write the board to a zip file, whole or not at all. Raises Refused, OSError."""
    _check_free(target)
    with tempfile.TemporaryDirectory() as temporary:
        export = write_folder(Path(temporary) / "board", with_artefacts, progress)
        partial = target.with_name(f".{target.name}")
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:  # Parquet is compressed already
                for path in sorted(export.path.rglob("*")):
                    if path.is_file():
                        archive.write(path, path.relative_to(export.path))
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return Exported(target, export.rows, export.artefacts, target.stat().st_size, export.sha256)


def write_folder(target: Path, with_artefacts: bool = False, progress: Progress = lambda *_: None) -> Exported:
    """Write the board to a folder that is made for it, whole or not at all.

    with_artefacts: with the files that the board offers for download, and no others. Raises Refused, OSError.
    """
    _check_free(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        rows = write_tables(partial, progress)
        artefacts = list(write_artefacts(partial, progress)) if with_artefacts else []
        text = json.dumps(describe_package(partial, rows, artefacts), indent=1, ensure_ascii=False, allow_nan=False)
        (partial / DESCRIPTION).write_text(text, encoding="utf-8")
        size = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
        partial.chmod(0o755)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return Exported(target, rows, len(artefacts), size, sha256(text.encode()).hexdigest())


def _check_free(target: Path) -> None:
    if target.exists():
        raise Refused(f"{target} is there already: choose another name, or remove it first")


def write_tables(folder: Path, progress: Progress) -> dict[str, int]:
    """Write all tables as of one moment; returns rows by table. Raises Refused if the board keeps changing."""
    (folder / "tables").mkdir()
    for _ in range(TRIES):
        stamp = board_stamp().kept
        rows = {}
        for number, table in enumerate(TABLES, start=1):
            rows[table.name] = write_table(table, folder / table.path)
            progress("tables", number, len(TABLES))
        if board_stamp().kept == stamp:
            return rows
    raise Refused(f"the board changed while it was read, {TRIES} times: try again when less is published")


def write_table(table: PackageTable, path: Path) -> int:
    """Write one table, ordered by its key; returns the number of its rows."""
    lookups = [table.lookup(column) for column in table.columns]
    order = [table.lookup(column) for column in table.key] or ["at", "pk"]
    values = iter(table.rows().order_by(*order).values_list(*lookups).iterator(chunk_size=ROWS))
    schema = arrow_schema(table)
    cells = [to_cell(kind_of(table, column)) for column in table.columns]
    hidden_slugs, inner = LanguageModel.objects.hidden_slugs(), to_cell("object")
    for column, publish in (("detail", public_detail), ("statistics", public_statistics)):
        if column in table.columns:
            cells[table.columns.index(column)] = partial(write_public, inner, publish, hidden_slugs)
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(values, ROWS)):
            columns = zip(*chunk, strict=True)
            arrays = [
                pa.array([cell(value) for value in column], field.type)
                for column, cell, field in zip(columns, cells, schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(chunk)
    return count


def write_public(
    inner: Callable[[Any], Any],
    publish: Callable[[dict[str, Any], Collection[str]], dict[str, Any]],
    hidden_slugs: Collection[str],
    value: dict[str, Any],
) -> Any:
    """A cell of the part of `value` that anyone may see."""
    return inner(publish(value, hidden_slugs))


def write_artefacts(folder: Path, progress: Progress) -> Iterator[Artefact]:
    """Copy the artefacts that anyone may download; yields each. Raises Refused if a file is damaged or missing."""
    referenced_artefacts = TABLES[0].rows().order_by("sha256")
    artefacts = [artefact for artefact in referenced_artefacts if downloadable(artefact.sha256)]
    for number, artefact in enumerate(artefacts, start=1):
        problem = damage(artefact)
        if problem:
            raise Refused(f"{problem}; run `manage.py verify`")
        path = folder / artefact_path(artefact.sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_whole(artefact) as file:
            place(path, iter(partial(file.read, 2**20), b""))
        progress("artefacts", number, len(artefacts))
        yield artefact


def describe_package(folder: Path, rows: dict[str, int], artefacts: list[Artefact]) -> dict[str, Any]:
    """Make the content of datapackage.json."""
    return {
        "$schema": PROFILE,
        "name": "plumbline-board",
        "title": "A Plumbline board",
        "description": (
            "Models, metrics, versions, results, standings and their history, as the board shows them. "
            "`manage.py import_results` makes the same board of it where there is none yet."
        ),
        "homepage": settings.SITE_URL,
        "created": timezone.now().isoformat(timespec="seconds"),
        "licenses": [LICENCE],
        "sources": list_sources(),
        "plumbline_board": {"format": FORMAT, "code": code()},
        "resources": [
            *(describe_table_file(table, folder, rows[table.name]) for table in TABLES),
            *(describe_artefact_file(artefact) for artefact in artefacts),
        ],
    }


def list_sources() -> list[dict[str, str]]:
    """List the sources: papers with published figures, and evaluation sets with their licences."""
    sets = EvaluationSet.objects.filter(artefact__isnull=False).order_by("slug", "version")
    return list_papers() + [name_source(texts) for texts in sets]


def list_papers() -> list[dict[str, str]]:
    """List the papers whose figures are among the results."""
    papers = MetricVersion.objects.filter(provenance=Provenance.PUBLISHED, published_at__isnull=False)
    return [{"title": source} for source in papers.order_by("source").values_list("source", flat=True).distinct()]


def name_source(texts: EvaluationSet) -> dict[str, str]:
    """Name an evaluation set as a source: its title, licence and citation."""
    licence = f"{texts.title} (licence: {texts.licence or NOT_STATED})"
    return {"title": ". ".join(filter(None, [licence, texts.citation]))}


def describe_table_file(table: PackageTable, folder: Path, rows: int) -> dict[str, Any]:
    """Describe the file of a table, as a resource. Figures among the results belong to their papers."""
    content = (folder / table.path).read_bytes()
    papers = list_papers() if table.model is Result else []
    return {
        "name": table.name,
        "title": table.title,
        "path": table.path,
        "format": "parquet",
        "mediatype": PARQUET,
        "bytes": len(content),
        "hash": f"sha256:{sha256(content).hexdigest()}",
        "rows": rows,
        **({"sources": papers} if papers else {}),
        "schema": describe_table(table),
    }


def describe_artefact_file(artefact: Artefact) -> dict[str, Any]:
    """Describe the file of an artefact, as a resource, with its own licence where its texts are not the board's."""
    return {
        "name": f"artefact-{artefact.sha256}",
        "path": artefact_path(artefact.sha256),
        "format": "parquet",
        "mediatype": PARQUET,
        "bytes": artefact.size,
        "hash": f"sha256:{artefact.sha256}",
        **licence_texts(artefact),
    }


def licence_texts(artefact: Artefact) -> dict[str, Any]:
    """Return under which licences and from where a file's contents are; {} where they are this board's own numbers.

    What came with an evaluation set, published scores too, is under its licence; what a model wrote, under what its
    makers say of outputs.
    """
    came_with = Q(artefact=artefact) | Q(continuations=artefact)
    came_with |= Q(prompt_scores=artefact) | Q(continuation_scores=artefact)
    sets = list(EvaluationSet.objects.filter(came_with))
    has_texts = artefact.kind in SCHEMAS and "text" in SCHEMAS[artefact.kind].names
    if not (sets or has_texts):
        return {}
    authors = LanguageModel.objects.none()
    if has_texts:
        authors = LanguageModel.objects.listed().filter(runs__artefact=artefact).distinct().order_by("slug")
    licences = {f"Of {texts.title}": texts.licence for texts in sets}
    licences |= {f"Of {model.name}, which wrote the texts": model.licence for model in authors}
    return {
        "licenses": [{"name": licence or NOT_STATED, "title": title} for title, licence in licences.items()],
        "sources": [name_source(texts) for texts in sets],
    }
