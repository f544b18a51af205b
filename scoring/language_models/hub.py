"""The hub: pinning a revision, fetching its files, and telling refusals from passing faults."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
from huggingface_hub import HfApi, ModelInfo, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from scoring.language_models.files import RELEVANT
from scoring.language_models.refusals import HubUnavailable, ModelRefused

PUBLIC_HUB = "https://huggingface.co"
HUB_TIMEOUT = 30.0  # seconds
COMMIT = re.compile(r"[0-9a-f]{40}")


class Pinned(NamedTuple):
    """A hub model at one commit: the commit, its files, the folder of its config.json, its licence ("" if unknown)."""

    commit: str
    files: list[str]
    folder: Path
    licence: str


def pin(ref: str, revision: str | None, endpoint: str, token: str | None) -> Pinned:
    """The commit that `revision` (default branch if None) of `ref` is now. Of the files only config.json is fetched.

    Raises ModelRefused with a remedy, or HubUnavailable.
    """
    with _named_faults(ref, revision, endpoint, token):
        info = _information(ref, revision, endpoint, token)
        if not COMMIT.fullmatch(info.sha or ""):
            raise HubUnavailable(f"{endpoint} names no commit for {ref} ({info.sha!r}), so nothing can be pinned")
        if info.gated and not token:
            raise ModelRefused(_gated(ref))
        files = [sibling.rfilename for sibling in info.siblings or []]
        if "config.json" not in files:
            raise ModelRefused(
                f"{ref} has no config.json, so its architecture is unknown: use a revision made with transformers"
            )
        config = hf_hub_download(ref, "config.json", revision=info.sha, endpoint=endpoint, token=token or False)
    licence = info.card_data.get("license") if info.card_data else None
    return Pinned(str(info.sha), files, Path(config).parent, str(licence or ""))


def fetch(ref: str, commit: str, endpoint: str, token: str | None) -> Path:
    """Bring weights, configuration and tokenizer of `ref` at `commit`; returns their folder.

    What was fetched before is not fetched again, and is used while the hub is away. Raises as `pin` does.
    """
    if not COMMIT.fullmatch(commit):
        raise ModelRefused(f"{commit!r} is no commit of {ref}, and what it means may move: resolve it first")
    with _named_faults(ref, commit, endpoint, token):
        folder = Path(
            snapshot_download(
                ref,
                revision=commit,
                allow_patterns=[f"*{ending}" for ending in RELEVANT],
                ignore_patterns=["*/*"],
                endpoint=endpoint,
                token=token or False,
            )
        )
        if any(folder.glob("*.safetensors")):
            return folder
        # With the hub away, or the repository gone, the client hands out whatever is there, be it config.json alone.
        # Asking once more tells the two apart.
        _information(ref, commit, endpoint, token)
        raise HubUnavailable(f"{endpoint} did not give the weights of {ref} at {commit}")


def _information(ref: str, revision: str | None, endpoint: str, token: str | None) -> ModelInfo:
    # Never the token of this machine's user unless it was handed over: hence False, not None.
    return HfApi(endpoint=endpoint, token=token or False).model_info(ref, revision=revision, timeout=HUB_TIMEOUT)


@contextmanager
def _named_faults(ref: str, revision: str | None, endpoint: str, token: str | None) -> Iterator[None]:
    try:
        yield
    except (ModelRefused, HubUnavailable):
        raise
    except GatedRepoError as error:
        raise ModelRefused(_gated(ref)) from error
    except RepositoryNotFoundError as error:
        raise ModelRefused(
            f"{ref} is not on {endpoint}, or is private, which looks the same: check the name, and set HF_TOKEN to a "
            "token that may read it"
        ) from error
    except DisabledRepoError as error:
        raise ModelRefused(f"{ref} was disabled by {endpoint}: use another model") from error
    except RevisionNotFoundError as error:
        raise ModelRefused(f"{ref} has no revision {revision!r}: give a branch, tag or commit of it") from error
    except LocalEntryNotFoundError as error:
        raise HubUnavailable(f"{endpoint} did not answer for {ref}: {error}") from error
    except EntryNotFoundError as error:
        raise ModelRefused(f"{ref} lacks a file at {revision or 'its default branch'}: {error}") from error
    except HfHubHTTPError as error:
        if token and error.response.status_code in (401, 403):
            raise ModelRefused(
                f"{endpoint} does not accept the token for {ref}: set HF_TOKEN to a valid one"
            ) from error
        raise HubUnavailable(f"{endpoint} did not answer for {ref}: {error}") from error
    except (httpx2.HTTPError, OSError) as error:
        raise HubUnavailable(f"{endpoint} did not answer for {ref}: {error}") from error


def _gated(ref: str) -> str:
    return (
        f"{ref} is gated: request access on its page, then set HF_TOKEN to a token of the account that was given access"
    )
