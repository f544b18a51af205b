"""Fetching a declared set: its pinned files, resumed where a connection broke, renamed once their checksum is right."""

import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn

import httpx

from scoring.artefacts import sha256
from scoring.evaluation_sets.catalogue import CatalogueEntry, CatalogueFile
from scoring.retries import with_retries

Progress = Callable[[str, int, int], None]  # path of the file, bytes done, bytes in all

TIMEOUT = httpx.Timeout(30.0, connect=10.0)
TRIES = 3
BACKOFF = 1.0  # seconds before the second try; doubled for each one after
REDIRECTS = 5
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class FetchError(RuntimeError):
    """A file could not be fetched. The message says which, why, and what to do."""


class _InterruptedError(Exception):
    """This try failed in a way that another may not."""


def fetch(
    entry: CatalogueEntry,
    data: Path,
    *,
    client: httpx.Client | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Put the files of `entry` under the folder `data` and return their paths, in the entry's order.

    A file that is there with the right checksum is left alone. Others are streamed to `<path>.part`, which a later
    call resumes, and renamed once size and sha256 are right. `progress(path, done, total)` is called with bytes.
    A client given here keeps its own timeouts and is not closed.

    Raises FetchError where a file is there with another checksum (nothing is overwritten), where the server does not
    have the pinned bytes, or where three tries failed; OSError where the disk refuses.
    """
    return fetch_files(entry.files, data, client=client, progress=progress)


def fetch_files(
    files: Iterable[CatalogueFile],
    data: Path,
    *,
    client: httpx.Client | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """The same for files that are no set's."""
    report: Progress = progress or (lambda _path, _count, _total: None)
    with nullcontext(client) if client else httpx.Client(timeout=TIMEOUT) as session:
        return [_fetch_file(file, data, session, report) for file in files]


def _fetch_file(file: CatalogueFile, data: Path, client: httpx.Client, report: Progress) -> Path:
    target = data / file.path
    if target.exists():
        _check_present(file, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        _drop_stale(file, part)
        if _size(part) < file.bytes:
            _download(file, part, client, report)
        _publish(file, part, target)
    report(file.path, file.bytes, file.bytes)
    return target


def _check_present(file: CatalogueFile, target: Path) -> None:
    actual_hash = sha256(target) if target.is_file() else "none, for it is not a file"
    if actual_hash != file.sha256:
        raise FetchError(
            f"{target} is there, but its sha256 is {actual_hash} where {file.sha256} is declared. "
            "Move it away and fetch again: it is never overwritten."
        )


def _drop_stale(file: CatalogueFile, part: Path) -> None:
    """Remove a part that resuming cannot complete."""
    if _size(part) > file.bytes or (_size(part) == file.bytes and sha256(part) != file.sha256):
        part.unlink()


def _publish(file: CatalogueFile, part: Path, target: Path) -> None:
    actual_hash = sha256(part)
    if actual_hash != file.sha256:
        _reject(file, part, f"the bytes have sha256 {actual_hash} where {file.sha256} is declared")
    with part.open("rb") as part_file:
        os.fsync(part_file.fileno())  # or a power cut could leave the name without the bytes
    part.replace(target)


def _download(file: CatalogueFile, part: Path, client: httpx.Client, report: Progress) -> None:
    if not file.url:
        raise FetchError(f"{file.path} has no known public address. Put your own copy there.")
    transient_errors = (httpx.TransportError, _InterruptedError)
    try:
        with_retries(TRIES, BACKOFF, transient_errors)(_resume, file, part, client, report)
    except transient_errors as error:
        raise FetchError(
            f"{file.url}: {TRIES} tries failed, the last with {type(error).__name__.strip('_')}: {error}. "
            f"{_size(part)} of {file.bytes} bytes are kept in {part}: fetch again to resume."
        ) from error


def _resume(file: CatalogueFile, part: Path, client: httpx.Client, report: Progress) -> None:
    """One try: append what is missing to `part`, or write it anew where the server cannot continue."""
    have = _size(part)
    with _open(file, have, client) as response:
        _check_status(file, part, response)
        start, total = _extent(response)
        if total not in (None, file.bytes):
            _reject(file, part, f"the server has {total} bytes where {file.bytes} are declared")
        if start not in (0, have):
            part.unlink(missing_ok=True)
            raise _InterruptedError(f"asked to go on at byte {have}, the server went on at {start}")
        with part.open("ab" if start else "wb") as out:
            position = start
            for chunk in response.iter_raw():  # as it comes: what is buffered when the connection breaks would be lost
                position += len(chunk)
                if position > file.bytes:
                    break
                out.write(chunk)
                report(file.path, position, file.bytes)
    if position > file.bytes:
        _reject(file, part, f"the server sends more than the {file.bytes} bytes declared")
    if position < file.bytes:
        raise _InterruptedError(f"the server stopped after {position} bytes")


@contextmanager
def _open(file: CatalogueFile, have: int, client: httpx.Client) -> Iterator[httpx.Response]:
    """The server's answer, after redirects. They are followed by hand: each address must be a safe one."""
    # Compressed bytes could be neither resumed nor counted.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    request = client.build_request("GET", file.url, headers=headers)
    plain_allowed = True
    for _ in range(REDIRECTS + 1):
        _check_address(file, request.url, plain_allowed)
        plain_allowed = request.url.scheme == "http"  # never from https down to http
        response = client.send(request, stream=True, follow_redirects=False)
        try:
            if response.next_request is None:
                yield response
                return
            request = response.next_request
        finally:
            response.close()
    raise FetchError(f"{file.url}: more than {REDIRECTS} redirects. Check the address in the catalogue.")


def _check_address(file: CatalogueFile, url: httpx.URL, plain_allowed: bool) -> None:
    if url.scheme == "https" or (plain_allowed and url.scheme == "http" and _is_loopback(url.host)):
        return
    raise FetchError(f"{file.url}: {url} is not https, and nothing else is fetched. Correct it in the catalogue.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_status(file: CatalogueFile, part: Path, response: httpx.Response) -> None:
    """Pass 200 and 206, raise _InterruptedError where another try may do better, else FetchError."""
    status = response.status_code
    if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        return
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        part.unlink(missing_ok=True)
        raise _InterruptedError("the server cannot go on where the last try stopped")
    if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or status >= 500:
        raise _InterruptedError(f"the server answered {status}")
    raise FetchError(
        f"{file.url}: the server answered {status}. Where the file has moved, put your own copy at {file.path} in the "
        "data folder: only its checksum matters."
    )


def _extent(response: httpx.Response) -> tuple[int, int | None]:
    """(position of the first byte that is sent, size of the whole file or None where the server does not say)."""
    if response.status_code == HTTPStatus.PARTIAL_CONTENT:
        content_range = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if content_range is None:
            raise _InterruptedError("the server sent a part without saying which")
        return int(content_range[1]), None if content_range[2] == "*" else int(content_range[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdecimal() else None


def _reject(file: CatalogueFile, part: Path, reason: str) -> NoReturn:
    part.unlink(missing_ok=True)
    raise FetchError(
        f"{file.url}: {reason}, so this is not the pinned file; nothing was kept. Fetch again; if it stays so, put "
        "your "
        f"own copy at {file.path} in the data folder."
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
