"""Uploads and submitted models are read and run in cages, with the limits and the strictness of this board."""

import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from django.conf import settings
from django.db import connection

from leaderboard.models import LanguageModel
from leaderboard.services.devices import has_gpu, require_engine
from leaderboard.services.downloads import require_files
from leaderboard.services.folders import HostLacks, fetch_folder, name_of_model
from leaderboard.services.kept_models import KEPT_MODELS, LIVES, OpenModel, memory_for_kept
from leaderboard.services.leases import Lease, OutOfTime, stop_requested
from leaderboard.services.memory import memory_needed, memory_of_workers
from leaderboard.services.signs_of_life import note_cage
from scoring import cage, language_models
from scoring.cage import CagedModel, CageError, CageLimits, FileReader, Protection
from scoring.cage.confinement import NOBODY
from scoring.cage.protections import as_json
from scoring.language_models import BUNDLED, LoadedFile, Precision, ResolvedModel
from scoring.language_models.description import Describe, Description
from scoring.language_models.downloads import check_unchanged
from scoring.language_models.hub import find_fetched
from scoring.language_models.package import describe_file

log = logging.getLogger(__name__)

MAPPED = 2  # bytes of address space for each of memory: the files of the weights are mapped beside their copy
READING_SECONDS = 3600.0  # for an upload of any size
READING_MEMORY = 8 * 2**30
READING_ANSWER = 3 * 2**30  # bytes of a table: what `scoring.contributed.Limits` lets an upload hold, and its ids
OPERATORS_OWN = CageLimits(seconds=120.0, idle_seconds=120.0)  # to describe models that nobody waits for at a page


QUEUES = {"gpu", "readings"}  # whose work needs cages


def note_protections(worker: str) -> None:
    """Open a cage and note its protections in the worker's row, for operators. Workers call it when they start."""
    try:
        with cage.open_cage(CageLimits()) as empty_cage:
            protections = empty_cage.protections
    except CageError as error:
        protections = [Protection("cage", "A process of its own", False, str(error)[:300])]
    if stop_requested.is_set():  # cages end with the process, and a worker that has left gets no row again
        return
    for protection in protections:
        if protection.holds is False:
            log.warning(
                "strangers' models are not shut in whole: %s: missing (%s)", protection.title.lower(), protection.detail
            )
    try:
        note_cage(worker, as_json(protections))
    finally:
        connection.close()  # this thread's own


def is_strict() -> bool:
    """Whether work is refused where a protection is missing on this host."""
    return bool(settings.CAGE == "required")


def limits_of_run(spent_seconds: float) -> CageLimits:
    """The limits of a run that has taken `spent_seconds` so far. Raises OutOfTime."""
    if spent_seconds >= settings.RUN_SECONDS:
        raise OutOfTime(
            f"it took {spent_seconds:,.0f} s, and RUN_SECONDS = {settings.RUN_SECONDS:g} is what a run may take"
        )
    memory = int(memory_of_workers())
    return CageLimits(
        seconds=settings.RUN_SECONDS - spent_seconds,
        idle_seconds=settings.NO_PROGRESS_SECONDS,
        memory=memory,
        address_space=None if has_gpu() else MAPPED * memory,
    )


@contextmanager
def open_model(
    model: LanguageModel, precision: Precision, lease: Lease
) -> Iterator[tuple[CagedModel, tuple[LoadedFile, ...]]]:
    """The model in a cage for the block, which `lease` ends, and the files that it was loaded from.

    Raises ModelRefused, HubUnavailable, CageError.
    """
    location = str(BUNDLED / model.location) if model.source == LanguageModel.Source.BUNDLED else model.location
    if model.source == LanguageModel.Source.HUB:
        path = find_fetched(model.location, model.revision) or require_files(model)
        check_unchanged(path, model.location)
    elif model.source == LanguageModel.Source.LOCAL:
        stored_folder = fetch_folder(name_of_model(model))
        if stored_folder is None and not Path(location).exists():
            raise HostLacks(f"{location} is not on this host: put it there, or add the model again where it is")
        path = language_models.place("folder", str(stored_folder or location), model.revision)
    else:
        path = language_models.place("folder", location, model.revision)
    limits = limits_of_run(lease.work.seconds)
    key = (model.slug, str(path), model.revision, precision)
    open_one = KEPT_MODELS.take(key)
    if open_one:
        open_one.caged_model.resume(limits, lease.check)
    else:
        size = memory_needed(model.parameters or 0, precision)
        KEPT_MODELS.make_room(size)
        open_one = _load_model(path, model.name, precision, limits, lease, size)
    with ExitStack() as stack:
        stack.push(open_one.stack)  # closed by whatever goes wrong: then its cage may be amid a request
        yield open_one.caged_model, open_one.files
        stack.pop_all()
    KEPT_MODELS.keep(key, open_one)


def _load_model(
    path: Path, name: str, precision: Precision, limits: CageLimits, lease: Lease, size: float
) -> OpenModel:
    """Open a model in a cage whose allowance of processor time lasts for several runs, where models are kept."""
    if memory_for_kept():
        limits = replace(limits, lives=LIVES)
    with ExitStack() as stack:
        opened_at = time.monotonic()
        caged_model = stack.enter_context(
            cage.open_model(path, name, precision, limits, check=lease.check, strict=is_strict(), cuda=has_gpu())
        )
        folder = path if path.is_dir() else path.parent
        files = tuple(describe_file(folder / file) for file in caged_model.files)
        return OpenModel(caged_model, files, size, stack.pop_all(), opened_at)


@contextmanager
def open_upload(path: Path, lease: Lease) -> Iterator[FileReader]:
    """A cage that reads the file at `path`, for the block, which `lease` ends; bytes read are its progress.

    Raises CageError.
    """

    def progress(bytes_read: int) -> None:
        lease.check()
        lease.note(done=min(bytes_read, lease.work.total))

    memory = min(READING_MEMORY, int(memory_of_workers()))
    limits = CageLimits(
        seconds=READING_SECONDS,
        idle_seconds=settings.NO_PROGRESS_SECONDS,
        memory=memory,
        address_space=MAPPED * memory,
        answer_bytes=READING_ANSWER,
    )
    _hand_over(path)
    with cage.open_file(path, limits, progress, check=lease.check, strict=is_strict()) as reader:
        yield reader


def read_results(file: BinaryIO) -> dict[str, Any]:
    """As `scoring.contributed.tools.results_of`, in a cage. Raises ContributionRefused, CageError."""
    with TemporaryDirectory(prefix="plumbline-") as folder:
        path = Path(folder) / "results.json"
        file.seek(0)
        with path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        _hand_over(path)
        with cage.open_file(path, cage.LOOK_UP, strict=is_strict()) as reader:
            return reader.read_results()


def _hand_over(path: Path) -> None:
    """Where a cage has a user of its own, let it read a file in a folder that is for nobody else."""
    if os.getuid() == 0:
        for part in (path.parent, path):
            os.chown(part, NOBODY, NOBODY)


def _describe_within(limits: CageLimits) -> Describe:
    """A function that describes a model in a cage with these limits."""

    def describe(path: Path, name: str, files: list[str]) -> Description:
        with cage.open_reader([path], limits, strict=is_strict()) as describe_caged:
            return describe_caged(path, name, files)

    return describe


def resolve_model(ref: str, revision: str | None = None) -> ResolvedModel:
    """As `scoring.language_models.resolve`, with this board's hub, and read in a cage. Raises Refused too."""
    require_engine()
    return language_models.resolve(
        ref,
        revision=revision,
        endpoint=settings.HUB_ENDPOINT,
        token=settings.HUB_TOKEN,
        describe=_describe_within(OPERATORS_OWN),
    )


def resolve_folders(folders: list[Path]) -> list[ResolvedModel]:
    """As `resolve_model`, for folders that are read in one cage."""
    require_engine()
    with cage.open_reader(folders, OPERATORS_OWN, strict=is_strict()) as describe:
        return [language_models.resolve(str(folder), describe=describe) for folder in folders]


def prepare() -> None:
    """Start the process that cages are forked from: loading its libraries takes seconds. Raises CageUnavailable."""
    cage.NURSERY.prepare()


def look_up(hub_id: str, revision: str | None, patience: float) -> ResolvedModel:
    """As `scoring.language_models.resolve_hub`, with this board's hub, and read in a cage.

    Strangers ask: a private repository that only the token of this board may read is none for them.
    """
    return language_models.resolve_hub(
        hub_id,
        revision=revision,
        endpoint=settings.HUB_ENDPOINT,
        token=settings.HUB_TOKEN,
        patience=patience,
        describe=_describe_within(cage.LOOK_UP),
        private_too=False,
    )
