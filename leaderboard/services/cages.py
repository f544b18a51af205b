"""What strangers send is read and run in cages: with this board's limits, and as strict as it was set up to be."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import torch
from django.conf import settings

from leaderboard.models import LanguageModel
from leaderboard.services.leases import Lease
from leaderboard.services.memory import memory_of_workers
from scoring import cage
from scoring.cage import CagedModel, FileReader, Limits
from scoring.cage.confinement import NOBODY
from scoring.language_models import BUNDLED, Architecture, Precision, ResolvedModel, resolve, resolve_hub
from scoring.language_models.loading import place

MAPPED = 2  # bytes of address space for each of memory: the files of the weights are mapped beside their copy
READING_SECONDS = 3600.0  # for an upload of any size
READING_MEMORY = 8 * 2**30
READING_ANSWER = 3 * 2**30  # bytes of a table: what `scoring.contributed.Limits` lets an upload hold, and its ids
LOCAL_SECONDS = 120.0  # to describe an operator's own file: that of GGUF holds the vocabulary


def is_strict() -> bool:
    """Whether work is refused where a protection is missing on this host."""
    return bool(settings.CAGE == "required")


def limits_of_runs() -> Limits:
    """What collecting a model's outputs may take in one slice."""
    memory = int(memory_of_workers())
    return Limits(
        seconds=settings.RUN_SECONDS,
        idle_seconds=settings.NO_PROGRESS_SECONDS,
        memory=memory,
        address_space=None if torch.cuda.is_available() else MAPPED * memory,
    )


@contextmanager
def open_model(model: LanguageModel, precision: Precision, lease: Lease) -> Iterator[CagedModel]:
    """The model in a cage for the block, which `lease` ends. Raises ModelRefused, HubUnavailable, CageError."""
    location = str(BUNDLED / model.location) if model.source == LanguageModel.Source.BUNDLED else model.location
    source = "hub" if model.source == LanguageModel.Source.HUB else "folder"
    path = place(source, location, model.revision, endpoint=settings.HUB_ENDPOINT, token=settings.HUB_TOKEN)
    with cage.open_model(
        path,
        model.name,
        precision,
        limits_of_runs(),
        check=lease.check,
        strict=is_strict(),
        cuda=torch.cuda.is_available(),
    ) as caged:
        yield caged


@contextmanager
def open_upload(path: Path, lease: Lease) -> Iterator[FileReader]:
    """A cage that reads the file at `path`, for the block, which `lease` ends; bytes read are its progress.

    Raises CageError.
    """

    def progress(read: int) -> None:
        lease.check()
        lease.note(done=min(read, lease.work.total))

    memory = min(READING_MEMORY, int(memory_of_workers()))
    limits = Limits(
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


def _describe(path: Path, name: str, files: list[str]) -> tuple[Architecture, str]:
    limits = cage.LOOK_UP if path.is_dir() else Limits(seconds=LOCAL_SECONDS, idle_seconds=LOCAL_SECONDS)
    with cage.open_reader([path], limits, strict=is_strict()) as describe:
        return describe(path, name, files)


def resolve_model(ref: str, revision: str | None = None) -> ResolvedModel:
    """As `scoring.language_models.resolve`, with this board's hub, and read in a cage."""
    return resolve(ref, revision=revision, endpoint=settings.HUB_ENDPOINT, token=settings.HUB_TOKEN, describe=_describe)


def resolve_folders(folders: list[Path]) -> list[ResolvedModel]:
    """As `resolve_model`, for folders that are read in one cage."""
    with cage.open_reader(folders, strict=is_strict()) as describe:
        return [resolve(str(folder), describe=describe) for folder in folders]


def look_up(hub_id: str, revision: str | None, patience: float) -> ResolvedModel:
    """As `scoring.language_models.resolve_hub`, with this board's hub, and read in a cage."""
    return resolve_hub(
        hub_id,
        revision=revision,
        endpoint=settings.HUB_ENDPOINT,
        token=settings.HUB_TOKEN,
        patience=patience,
        describe=_describe,
    )
