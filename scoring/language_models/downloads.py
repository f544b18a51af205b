"""Files of a hub, no larger than it declares, and with the hashes that it declares."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download, hf_hub_url
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import get_session, hf_raise_for_status
from tqdm import tqdm

from scoring.language_models.refusals import HubUnavailable, ModelRefused

SLACK = 2**20  # bytes beyond what is declared, for clients that count more than the file
SMALL = 16 * 2**20  # bytes; no configuration is larger
PATIENCE = 600.0  # seconds for any file
SLOWEST = 50_000  # bytes a second beyond them
BLOCK = 2**20


Progress = Callable[[int], None]  # bytes of the current file so far


def download(
    ref: str,
    commit: str,
    file: RepoSibling,
    endpoint: str,
    token: str | None,
    progress: Progress = lambda _bytes: None,
) -> Path:
    """Bring a file into the hub's cache, unless it is there, and compare it with its declared size and hash.

    Raises ModelRefused where it is another one, which then is not kept; HubUnavailable where it comes too slowly.
    """
    size = declared_size(ref, file)
    found = hf_hub_download(
        ref,
        file.rfilename,
        revision=commit,
        endpoint=endpoint,
        token=token or False,
        tqdm_class=_bounded(ref, file.rfilename, size, progress),
    )
    path = Path(found)
    try:
        verify(ref, file, path)
    except ModelRefused:
        path.resolve().unlink()
        path.unlink(missing_ok=True)
        raise
    return path


def download_small(
    ref: str, commit: str, file: RepoSibling, endpoint: str, token: str | None, folder: Path, patience: float
) -> None:
    """Bring a configuration into `folder`, in `patience` seconds at most. Raises as `download` does."""
    size = declared_size(ref, file)
    if size > SMALL:
        raise ModelRefused(f"{file.rfilename} of {ref} has {size:,} bytes, and at most {SMALL:,} are read: shorten it")
    until, got = time.monotonic() + patience, bytearray()
    url = hf_hub_url(ref, file.rfilename, revision=commit, endpoint=endpoint)
    headers = build_hf_headers(token=token or False)
    with get_session().stream("GET", url, headers=headers, timeout=patience, follow_redirects=True) as response:
        if response.is_error:
            response.read()
        hf_raise_for_status(response)
        for part in response.iter_bytes(BLOCK):
            got += part
            if len(got) > size:
                raise _longer(ref, file.rfilename, size)
            if time.monotonic() > until:
                raise HubUnavailable(f"{endpoint} sends {file.rfilename} of {ref} too slowly")
    (folder / file.rfilename).write_bytes(got)
    verify(ref, file, folder / file.rfilename)


def declared_size(ref: str, file: RepoSibling) -> int:
    """How long the hub says the file is. Raises ModelRefused where it does not say."""
    if file.size is None or file.size < 0 or not (file.lfs or file.blob_id):
        raise ModelRefused(
            f"the hub does not say how long {file.rfilename} of {ref} is and what its hash is, so it cannot be "
            "checked: upload it again"
        )
    return file.size


def verify(ref: str, file: RepoSibling, path: Path) -> None:
    """Compare what was fetched with what was declared. Raises ModelRefused."""
    size = path.stat().st_size
    if size != file.size:
        raise ModelRefused(
            f"{file.rfilename} of {ref} has {size:,} bytes where the hub declares {file.size:,}: it was not kept. "
            "Upload the file again, or try later"
        )
    # Large files are kept by their sha256, others as git keeps them.
    declared = file.lfs.sha256 if file.lfs else file.blob_id
    digest = hashlib.sha256() if file.lfs else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as content:
        while block := content.read(BLOCK):
            digest.update(block)
    if digest.hexdigest() != declared:
        raise ModelRefused(
            f"{file.rfilename} of {ref} is not what the hub declares: its hash is {digest.hexdigest()[:12]}, not "
            f"{str(declared)[:12]}. It was not kept; upload the file again, or try later"
        )


def _longer(ref: str, name: str, size: int) -> ModelRefused:
    return ModelRefused(
        f"{name} of {ref} is longer than the {size:,} bytes that the hub declares: it was not kept. Upload the file "
        "again, or try later"
    )


def _bounded(ref: str, name: str, size: int, progress: Progress) -> type[Any]:
    """A progress bar that stops the download that it shows, where that goes on for too long."""
    until = time.monotonic() + PATIENCE + size / SLOWEST

    class Bounded(tqdm):  # type: ignore[type-arg]  # the hub's client hands all options over
        def __init__(self, *args: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*args, **{**options, "disable": True})
            self.got = 0

        def update(self, n: float | None = 1) -> bool | None:
            self.got += int(n or 0)
            progress(self.got)
            if self.got > size + SLACK:
                raise _longer(ref, name, size)
            if time.monotonic() > until:
                raise HubUnavailable(f"the hub sends {name} of {ref} too slowly")
            return super().update(n)

    return Bounded
