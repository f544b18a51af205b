"""The hub: pinning a revision, fetching its files, and telling refusals from passing faults."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
from huggingface_hub import HfApi, ModelInfo, constants, try_to_load_from_cache
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoSibling

from scoring.language_models.downloads import Progress, declared_size, download, download_small
from scoring.language_models.files import RELEVANT
from scoring.language_models.refusals import Gated, HubUnavailable, ModelRefused, NoSuchRevision, NotOnHub

PUBLIC_HUB = "https://huggingface.co"
HUB_TIMEOUT = 30.0  # seconds
COMMIT = re.compile(r"[0-9a-f]{40}")
# As the hub has them: no more than a path below its address, whoever wrote it.
_NAME = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
HUB_ID = re.compile(rf"(?!.*(?:--|\.\.))(?:{_NAME}/)?{_NAME}", re.ASCII)
CONFIGURATION = ("config.json", "tokenizer_config.json")


class Pinned(NamedTuple):
    """A hub model at one commit: its id, the commit, its files, its licence ("" if unknown), bytes of its weights."""

    ref: str
    commit: str
    files: list[str]
    licence: str
    weights: int


def pin(
    ref: str, revision: str | None, endpoint: str, token: str | None, folder: Path, patience: float | None = None
) -> Pinned:
    """The commit that `revision` (default branch if None) of `ref` is now. Its configuration is put into `folder`.

    `patience`: seconds to wait for an answer; HUB_TIMEOUT if None. Raises ModelRefused, or HubUnavailable.
    """
    patience = patience or HUB_TIMEOUT
    with _named_faults(ref, revision, endpoint, token):
        info = _information(ref, revision, endpoint, token, patience)
        if not COMMIT.fullmatch(info.sha or ""):
            raise HubUnavailable(f"{endpoint} names no commit for {ref} ({info.sha!r}), so nothing can be pinned")
        if info.gated and not token:
            raise Gated(_gated(ref))
        files = {sibling.rfilename: sibling for sibling in info.siblings or []}
        if "adapter_config.json" in files and "config.json" not in files:
            raise ModelRefused(f"{ref} is an adapter, not a whole model: merge it into its base model and upload that")
        if "config.json" not in files:
            raise ModelRefused(
                f"{ref} has no config.json, so its architecture is unknown: use a revision made with transformers"
            )
        for name in CONFIGURATION:
            if name in files:
                download_small(ref, str(info.sha), files[name], endpoint, token, folder, patience)
    licence = info.card_data.get("license") if info.card_data else None
    weights = sum(file.size or 0 for file in files.values() if _is_weights(file.rfilename))
    return Pinned(_named(info, ref), str(info.sha), list(files), _in_words(licence), weights)


def fetch(ref: str, commit: str, endpoint: str, token: str | None, *, progress: Progress = lambda _bytes: None) -> Path:
    """Bring weights, configuration and tokenizer of `ref` at `commit`; returns their folder.

    Each file is compared with the size and the hash that the hub declares. What was fetched before is not fetched
    again, and is used while the hub is away. `progress` gets the bytes of the current file. Raises as `pin` does.
    """
    if not COMMIT.fullmatch(commit):
        raise ModelRefused(f"{commit!r} is no commit of {ref}, and what it means may move: resolve it first")
    with _named_faults(ref, commit, endpoint, token):
        try:
            info = _information(ref, commit, endpoint, token)
        except (httpx2.HTTPError, OSError) as error:
            if not _passes(error):
                raise
            return _fetched_before(ref, commit, error)
        wanted = [file for file in info.siblings or [] if _is_relevant(file.rfilename)]
        _refuse_without_room(ref, wanted)
        # Weights last: where they are whole, all of it is.
        for file in sorted(wanted, key=lambda file: _is_weights(file.rfilename)):
            path = download(ref, commit, file, endpoint, token, progress)
        if not _is_weights(path.name):
            raise ModelRefused(f"{ref} at {commit} has no weights as safetensors: convert it and try again")
        return path.parent


def _fetched_before(ref: str, commit: str, error: Exception) -> Path:
    """The folder of what was fetched before, for when the hub is away. Raises `error` unless that is all of it."""
    folder = find_fetched(ref, commit)
    if folder is None:
        raise error
    return folder


def find_fetched(ref: str, commit: str) -> Path | None:
    """The folder of what was fetched of `ref` at `commit`; None unless that is all of it. The hub is not asked."""
    config = try_to_load_from_cache(ref, "config.json", revision=commit)
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    index = folder / "model.safetensors.index.json"
    shards = set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else {"model.safetensors"}
    return folder if all((folder / shard).is_file() for shard in shards) else None


def _passes(error: Exception) -> bool:
    """Whether the hub may answer another time."""
    return not isinstance(error, HfHubHTTPError) or error.response.status_code in (408, 429, 500, 502, 503, 504)


def _is_relevant(name: str) -> bool:
    return "/" not in name and name.endswith(RELEVANT)


def _is_weights(name: str) -> bool:
    return "/" not in name and name.endswith(".safetensors")


def _refuse_without_room(ref: str, wanted: list[RepoSibling]) -> None:
    needed = sum(declared_size(ref, file) for file in wanted)
    cache = Path(constants.HF_HUB_CACHE)
    there = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise ModelRefused(
            f"the files of {ref} have {needed / 1e9:,.1f} GB and there is room for {free / 1e9:,.1f} GB where models "
            "are kept: use a smaller model, or ask the operators to make room"
        )


def _named(info: ModelInfo, ref: str) -> str:
    """What the hub calls the model: one that was renamed has its old name too."""
    return info.id if HUB_ID.fullmatch(info.id or "") else ref


def _in_words(licence: object) -> str:
    return ", ".join(str(one) for one in licence) if isinstance(licence, list) else str(licence or "")


def _information(
    ref: str, revision: str | None, endpoint: str, token: str | None, patience: float | None = None
) -> ModelInfo:
    # Never the token of this machine's user unless it was handed over: hence False, not None.
    return HfApi(endpoint=endpoint, token=token or False).model_info(
        ref, revision=revision, timeout=patience or HUB_TIMEOUT, files_metadata=True
    )


@contextmanager
def _named_faults(ref: str, revision: str | None, endpoint: str, token: str | None) -> Iterator[None]:
    try:
        yield
    except (ModelRefused, HubUnavailable):
        raise
    except GatedRepoError as error:
        raise Gated(_gated(ref)) from error
    except RepositoryNotFoundError as error:
        raise NotOnHub(
            f"{ref} is not on {endpoint}, or is private, which looks the same: check the name, and set HF_TOKEN to a "
            "token that may read it"
        ) from error
    except DisabledRepoError as error:
        raise ModelRefused(f"{ref} was disabled by {endpoint}: use another model") from error
    except RevisionNotFoundError as error:
        raise NoSuchRevision(f"{ref} has no revision {revision!r}: give a branch, tag or commit of it") from error
    except LocalEntryNotFoundError as error:
        raise HubUnavailable(f"{endpoint} did not answer for {ref}: {error}") from error
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


def _gated(ref: str) -> str:
    return (
        f"{ref} is gated: request access on its page, then set HF_TOKEN to a token of the account that was given access"
    )
