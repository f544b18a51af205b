"""The hub: pinning a revision, fetching its files, and telling refusals from passing faults."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import httpx2
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from scoring.artefacts import sha256
from scoring.language_models.downloads import (
    HubFile,
    Progress,
    commit_folder,
    declared_size,
    download,
    download_small,
    finish,
    is_finished,
    make_room,
)
from scoring.language_models.hub_client import HubClient
from scoring.language_models.package import LIMITS, choose_files, refuse_unsafe
from scoring.language_models.refusals import Gated, HubUnavailable, ModelRefused, NoSuchRevision, NotOnHub
from scoring.language_models.weights import INDEX, WHOLE, choose_weights

PUBLIC_HUB = "https://huggingface.co"
HUB_TIMEOUT = 30.0  # seconds
MOST_FILES = 20_000  # of a repository
LONGEST_LICENCE = 120  # characters
COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
# As the hub has them: no more than a path below its address, whoever wrote it.
_NAME = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
HUB_ID = re.compile(rf"(?!.*(?:--|\.\.))(?:{_NAME}/)?{_NAME}", re.ASCII)
CONFIGURATION = ("config.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json")


@dataclass(frozen=True, slots=True)
class Repository:
    """What a hub says of a repository at a commit: files by name; what it says besides is not used."""

    ref: str
    commit: str
    gated: bool
    private: bool
    licence: str
    files: dict[str, HubFile]


class Pinned(NamedTuple):
    """A hub model at one commit: its id, the commit, its files by name, its licence ("" if unknown)."""

    ref: str
    commit: str
    files: dict[str, HubFile]
    licence: str


def pin(
    ref: str,
    revision: str | None,
    endpoint: str,
    token: str | None,
    folder: Path,
    patience: float | None = None,
    *,
    private_too: bool = True,
) -> Pinned:
    """The commit that `revision` (default branch if None) of `ref` is now. Its configuration is put into `folder`.

    `patience`: seconds to wait for an answer; HUB_TIMEOUT if None. `private_too`: whether private repositories that
    the token may read are had, or look like missing ones. Raises ModelRefused, or HubUnavailable.
    """
    patience = patience or HUB_TIMEOUT
    client = HubClient(endpoint, token, patience)
    with client.client, _named_faults(ref, revision, endpoint, token):
        try:
            repository = _read_repository(client, ref, revision)
        except RevisionNotFoundError:
            if not private_too:  # that it lacks a revision would tell that there is one
                _refuse_private(_read_repository(client, ref, None), ref, endpoint)
            raise
        if not private_too:
            _refuse_private(repository, ref, endpoint)
        if repository.gated and not token:
            raise Gated(_gated_refusal(ref))
        files = repository.files
        if "adapter_config.json" in files and "config.json" not in files:
            raise ModelRefused(f"{ref} is an adapter, not a whole model: merge it into its base model and upload that")
        if "config.json" not in files:
            raise ModelRefused(
                f"{ref} has no config.json, so its architecture is unknown: use a revision made with transformers"
            )
        refuse_unsafe(ref, files)
        choose_files(ref, {name: declared_size(ref, files[name]) for name in LIMITS if name in files})
        small = CONFIGURATION if WHOLE in files else (*CONFIGURATION, INDEX)
        for name in small:
            if name in files:
                download_small(client, ref, repository.commit, files[name], folder, LIMITS[name], patience)
    return Pinned(repository.ref, repository.commit, files, repository.licence)


def fetch(
    ref: str,
    commit: str,
    endpoint: str,
    token: str | None,
    *,
    quota: int | None = None,
    progress: Progress = lambda _bytes: None,
    private_too: bool = True,
) -> Path:
    """Bring weights, configuration and tokenizer of `ref` at `commit`; returns their folder.

    Each file is compared with the size and the hash that the hub declares. What was fetched before is not fetched
    again, and is used while the hub is away. `quota`: bytes that all that is kept may have together, what is longest
    unused being evicted; None: what the disk has. `progress` gets the bytes of the current file. `private_too`: as for
    `pin`, which may have found it public. Raises as `pin` does.
    """
    if not COMMIT.fullmatch(commit):
        raise ModelRefused(f"{commit!r} is no commit of {ref}, and what it means may move: resolve it first")
    folder = commit_folder(ref, commit)
    client = HubClient(endpoint, token, HUB_TIMEOUT)
    with client.client, _named_faults(ref, commit, endpoint, token):
        try:
            repository = _read_repository(client, ref, commit)
        except (httpx2.HTTPError, HubUnavailable, OSError) as error:
            cached_folder = find_fetched(ref, commit) if _passes(error) else None
            if cached_folder is None:
                raise
            return cached_folder
        if not private_too:
            _refuse_private(repository, ref, endpoint)
        if repository.commit != commit:
            raise HubUnavailable(f"{endpoint} answers for another commit of {ref} than {commit[:12]}")
        refuse_unsafe(ref, repository.files)
        sizes = {name: declared_size(ref, repository.files[name]) for name in LIMITS if name in repository.files}
        folder.mkdir(parents=True, exist_ok=True)
        folder.touch()
        names = choose_files(ref, sizes)
        if INDEX in names:  # which says what the weights are
            download(client, ref, commit, repository.files[INDEX], folder, progress)
        wanted_files = {
            name: repository.files[name] for name in (*names, *choose_weights(folder, ref, repository.files))
        }
        make_room(sum(declared_size(ref, file) for file in wanted_files.values()), folder, quota, ref)
        for file in wanted_files.values():
            download(client, ref, commit, file, folder, progress)
        if not is_finished(folder):
            finish(folder, {name: file.sha256 or sha256(folder / name) for name, file in wanted_files.items()})
        return folder


def find_fetched(ref: str, commit: str) -> Path | None:
    """The folder of what was fetched of `ref` at `commit`; None unless that is all of it. The hub is not asked."""
    folder = commit_folder(ref, commit)
    if not is_finished(folder):
        return None
    folder.touch()
    return folder


def _read_repository(client: HubClient, ref: str, revision: str | None) -> Repository:
    """What the hub says of `ref` at `revision`. Raises HubUnavailable where its answer is none."""
    path = f"/api/models/{quote(ref)}" + (f"/revision/{quote(revision, safe='')}" if revision else "")
    answer = client.read_json(f"{path}?blobs=true")
    commit, siblings = answer.get("sha"), answer.get("siblings")
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise HubUnavailable(f"{client.endpoint} names no commit for {ref}, so nothing can be pinned")
    if not isinstance(siblings, list) or len(siblings) > MOST_FILES:
        raise HubUnavailable(f"{client.endpoint} gives no list of at most {MOST_FILES:,} files for {ref}")
    files = [_read_file(sibling) for sibling in siblings]
    name, card = answer.get("id"), answer.get("cardData")
    # One that was renamed has its old name too.
    repository_name = name if isinstance(name, str) and HUB_ID.fullmatch(name) else ref
    licence = _in_words(card.get("license")) if isinstance(card, dict) else ""
    return Repository(
        repository_name,
        commit,
        bool(answer.get("gated")),
        bool(answer.get("private")),
        licence,
        {file.name: file for file in files if file},
    )


def _read_file(sibling: object) -> HubFile | None:
    """A file as the hub lists it; None for what is not listed as one."""
    if not isinstance(sibling, dict) or not isinstance(sibling.get("rfilename"), str):
        return None
    size, blob, large = sibling.get("size"), sibling.get("blobId"), sibling.get("lfs")
    digest = large.get("sha256") if isinstance(large, dict) else None
    return HubFile(
        sibling["rfilename"],
        size if type(size) is int else None,
        blob if isinstance(blob, str) and COMMIT.fullmatch(blob) else "",
        digest if isinstance(digest, str) and SHA256.fullmatch(digest) else "",
    )


def _passes(error: Exception) -> bool:
    """Whether the hub may answer another time."""
    return not isinstance(error, HfHubHTTPError) or error.response.status_code in (408, 429, 500, 502, 503, 504)


def _in_words(licence: object) -> str:
    words = ", ".join(str(one) for one in licence) if isinstance(licence, list) else str(licence or "")
    return words[:LONGEST_LICENCE]


@contextmanager
def _named_faults(ref: str, revision: str | None, endpoint: str, token: str | None) -> Iterator[None]:
    try:
        yield
    except (ModelRefused, HubUnavailable):
        raise
    except GatedRepoError as error:
        raise Gated(_gated_refusal(ref)) from error
    except RepositoryNotFoundError as error:
        raise NotOnHub(_missing_refusal(ref, endpoint)) from error
    except DisabledRepoError as error:
        raise ModelRefused(f"{ref} was disabled by {endpoint}: use another model") from error
    except RevisionNotFoundError as error:
        raise NoSuchRevision(f"{ref} has no revision {revision!r}: give a branch, tag or commit of it") from error
    except EntryNotFoundError as error:
        raise ModelRefused(f"{ref} lacks a file at {revision or 'its default branch'}: {error}") from error
    except HfHubHTTPError as error:
        if token and error.response.status_code in (401, 403):
            raise ModelRefused(
                f"{endpoint} does not accept the token for {ref}: set HF_TOKEN to a valid one"
            ) from error
        raise HubUnavailable(f"{endpoint} did not answer for {ref}: status {error.response.status_code}") from error
    except httpx2.TimeoutException as error:
        raise HubUnavailable(f"{endpoint} did not answer for {ref} in time") from error
    except (httpx2.HTTPError, OSError) as error:
        raise HubUnavailable(f"{endpoint} did not answer for {ref}: {error}") from error


def _refuse_private(repository: Repository, ref: str, endpoint: str) -> None:
    """Raise NotOnHub for a private repository: it looks like a missing one."""
    if repository.private:
        raise NotOnHub(_missing_refusal(ref, endpoint))


def _missing_refusal(ref: str, endpoint: str) -> str:
    return (
        f"{ref} is not on {endpoint}, or is private, which looks the same: check the name, and set HF_TOKEN to a "
        "token that may read it"
    )


def _gated_refusal(ref: str) -> str:
    return (
        f"{ref} is gated: request access on its page, then set HF_TOKEN to a token of the account that was given access"
    )
