"""Files of a hub, no larger than it declares, and with the hashes that it declares; kept below a quota."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

from scoring.language_models.hub_client import BLOCK, HubClient, file_path
from scoring.language_models.package import LoadedFile, describe_file
from scoring.language_models.refusals import HubUnavailable, ModelRefused

PATIENCE = 600.0  # seconds for any file
SLOWEST = 50_000  # bytes a second beyond them
IN_USE = 3600.0  # seconds for which nothing is evicted that was asked for
FINISHED = ".finished.json"  # which files were fetched, with their hashes

Progress = Callable[[int], None]  # bytes fetched so far; what it raises ends the download, which can be resumed


@dataclass(frozen=True, slots=True)
class HubFile:
    """What the hub declares of a file: its name, bytes, and the hash of its contents, as sha256 or as git has it."""

    name: str
    size: int | None
    blob: str
    sha256: str


def cache_folder() -> Path:
    """Where all that is fetched lies: a folder a repository, in it a folder a commit."""
    return Path(constants.HF_HUB_CACHE) / "plumbline"


def commit_folder(ref: str, commit: str) -> Path:
    """Where the files of a commit lie."""
    return cache_folder() / ref.replace("/", "--") / commit


def make_room(size: int, keep: Path, quota: int | None, ref: str) -> None:
    """Evict what was not asked for longest until `size` bytes more are within `quota` and on the disk.

    Never `keep`, nor what was asked for within IN_USE seconds. Raises ModelRefused where that is not enough.
    """
    folders = sorted(
        (folder for folder in cache_folder().glob("*/*") if folder.is_dir() and folder != keep),
        key=lambda folder: folder.stat().st_mtime,
    )
    sizes = {folder: sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) for folder in folders}
    present = next(folder for folder in (cache_folder(), *cache_folder().parents) if folder.is_dir())
    room = shutil.disk_usage(present).free
    if quota is not None:
        room = min(room, quota - sum(sizes.values()))
    for folder in folders:
        if room >= size:
            return
        if time.time() - folder.stat().st_mtime > IN_USE:
            shutil.rmtree(folder, ignore_errors=True)
            room += sizes[folder]
    if room < size:
        raise ModelRefused(
            f"the files of {ref} have {size / 1e9:,.1f} GB and there is room for {max(room, 0) / 1e9:,.1f} GB where "
            "models are kept: use a smaller model, or ask the operators to make room"
        )


def download(
    client: HubClient, ref: str, commit: str, file: HubFile, folder: Path, progress: Progress = lambda _bytes: None
) -> None:
    """Bring a file into `folder`, unless it is there, and compare it with its declared size and hash.

    What was fetched of it before is not fetched again. Raises ModelRefused where it is another file, which then is not
    kept; HubUnavailable where it comes too slowly.
    """
    size = declared_size(ref, file)
    path = folder / file.name
    if path.is_file() and path.stat().st_size == size:
        return
    deadline = time.monotonic() + PATIENCE + size / SLOWEST
    with _lock(folder / f".{file.name}.incomplete", deadline, progress) as part:
        if path.is_file():  # another worker was quicker
            return
        digest = _Digest(file, size)
        for block in _blocks(part):
            digest.update(block)
        if digest.length > size:
            part.unlink()
            raise _longer(ref, file.name, size)
        try:
            _receive(client, ref, commit, file, size, part, digest, deadline, progress)
            digest.verify(ref)
        except ModelRefused:
            part.unlink(missing_ok=True)
            raise
        part.replace(path)


def _receive(
    client: HubClient,
    ref: str,
    commit: str,
    file: HubFile,
    size: int,
    part: Path,
    digest: "_Digest",
    deadline: float,
    progress: Progress,
) -> None:
    """Append to `part` what lacks of the file."""
    if digest.length == size:
        return
    headers = {"Range": f"bytes={digest.length}-"} if digest.length else {}
    remainder = max(1.0, deadline - time.monotonic())
    with client.stream(file_path(ref, commit, file.name), remainder, headers) as response, part.open("ab") as target:
        if digest.length and response.status_code != 206:  # it sends the whole file again
            target.truncate(0)
            digest.clear()
        for block in response.iter_bytes(BLOCK):
            digest.update(block)
            if digest.length > size:
                raise _longer(ref, file.name, size)
            target.write(block)
            os.utime(part.parent)  # in use: never evicted
            progress(digest.length)
            if time.monotonic() > deadline:
                raise HubUnavailable(f"the hub sends {file.name} of {ref} too slowly")


def download_small(
    client: HubClient, ref: str, commit: str, file: HubFile, folder: Path, most: int, patience: float
) -> None:
    """Bring a configuration of `most` bytes at most into `folder`, in `patience` seconds. Raises as `download` does."""
    size = declared_size(ref, file)
    if size > most:
        raise ModelRefused(f"{file.name} of {ref} has {size:,} bytes, and at most {most:,} are read: shorten it")
    digest, content = _Digest(file, size), bytearray()
    with client.stream(file_path(ref, commit, file.name), patience) as response:
        for block in response.iter_bytes(BLOCK):
            digest.update(block)
            content += block
            if len(content) > size:
                raise _longer(ref, file.name, size)
    digest.verify(ref)
    (folder / file.name).write_bytes(content)


def declared_size(ref: str, file: HubFile) -> int:
    """How long the hub says the file is. Raises ModelRefused where it does not say."""
    if file.size is None or file.size < 0 or not (file.sha256 or file.blob):
        raise ModelRefused(
            f"the hub does not say how long {file.name} of {ref} is and what its hash is, so it cannot be "
            "checked: upload it again"
        )
    return file.size


class _Digest:
    """The hash of a file as the hub declares it: large files by their sha256, others as git keeps them."""

    def __init__(self, file: HubFile, size: int) -> None:
        self.file, self.size = file, size
        self.clear()

    def clear(self) -> None:
        self.length = 0
        if self.file.sha256:
            self.hash = hashlib.sha256()
        else:
            self.hash = hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)

    def update(self, block: bytes) -> None:
        self.length += len(block)
        self.hash.update(block)

    def verify(self, ref: str) -> None:
        name, declared_hash = self.file.name, self.file.sha256 or self.file.blob
        if self.length != self.size:
            raise ModelRefused(
                f"{name} of {ref} has {self.length:,} bytes where the hub declares {self.size:,}: it was not kept. "
                "Upload the file again, or try later"
            )
        if self.hash.hexdigest() != declared_hash:
            raise ModelRefused(
                f"{name} of {ref} is not what the hub declares: its hash is {self.hash.hexdigest()[:12]}, not "
                f"{declared_hash[:12]}. It was not kept; upload the file again, or try later"
            )


def finish(folder: Path, hashes: dict[str, str]) -> None:
    """Note that the folder holds a whole model, of files with these sha256 by name."""
    part = folder / f"{FINISHED}.{os.getpid()}"
    part.write_text(json.dumps(hashes))
    part.replace(folder / FINISHED)


def is_finished(folder: Path) -> bool:
    """Whether a whole model was fetched into the folder."""
    return (folder / FINISHED).is_file()


def check_unchanged(folder: Path, ref: str) -> tuple[LoadedFile, ...]:
    """The files of the cache that make a model, which are those that were fetched.

    Raises HubUnavailable where they differ; they are fetched anew next time.
    """
    try:
        expected_hashes = json.loads((folder / FINISHED).read_text())
        files = tuple(describe_file(folder / name) for name in sorted(expected_hashes))
    except FileNotFoundError:
        files, expected_hashes = (), None
    if expected_hashes is None or any(expected_hashes[file.name] != file.sha256 for file in files):
        shutil.rmtree(folder, ignore_errors=True)
        raise HubUnavailable(f"the files of {ref} that are kept here are damaged: they are fetched again")
    return files


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as content:
        while block := content.read(BLOCK):
            yield block


@contextmanager
def _lock(path: Path, deadline: float, progress: Progress) -> Iterator[Path]:
    """The file that is written, alone: of two workers one waits for the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise HubUnavailable(f"another worker has been fetching {path.stem} for too long") from None
                progress(0)
                time.sleep(0.2)
        path.touch()
        try:
            yield path
        finally:
            lock.close()


def _longer(ref: str, name: str, size: int) -> ModelRefused:
    return ModelRefused(
        f"{name} of {ref} is longer than the {size:,} bytes that the hub declares: it was not kept. Upload the file "
        "again, or try later"
    )
