"""Where the files of a pinned model lie on this machine, once they are known to be the pinned ones."""

from pathlib import Path

from scoring.language_models.downloads import check_unchanged
from scoring.language_models.hub import PUBLIC_HUB, fetch
from scoring.language_models.refusals import ModelRefused, RevisionChanged
from scoring.language_models.revisions import file_revision, folder_revision


def place(
    source: str,
    location: str,
    revision: str,
    *,
    endpoint: str = PUBLIC_HUB,
    token: str | None = None,
) -> Path:
    """The folder or GGUF file on this machine that holds what `resolve` pinned; a hub's is fetched.

    Nothing in it is read but for its hash. Raises RevisionChanged, ModelRefused, and HubUnavailable when the hub does
    not answer.
    """
    if source != "hub":
        return _check_unchanged(location, revision)
    folder = fetch(location, revision, endpoint, token)
    check_unchanged(folder, location)
    return folder


def _check_unchanged(location: str, revision: str) -> Path:
    """The path of a folder or file, if its contents are still the pinned ones."""
    path = Path(location)
    if not path.exists():
        raise ModelRefused(f"{location} is gone: put it back, or enter the model anew")
    revision_now = folder_revision(path) if path.is_dir() else file_revision(path)
    if revision_now != revision:
        raise RevisionChanged(
            f"{location} has changed since it was entered: pinned was {revision}, found {revision_now}. Put the "
            "files back, or enter it anew as another revision"
        )
    return path
