"""The files of a scorer that is a model of transformers: a folder's, or a hub's at a commit."""

from pathlib import Path
from tempfile import TemporaryDirectory

from scoring.language_models import ModelRefused
from scoring.language_models.configuration import read_configuration
from scoring.language_models.hub import fetch, find_fetched, pin


def find_files(ref: str, revision: str | None, endpoint: str, token: str | None, may_fetch: bool) -> tuple[Path, str]:
    """The folder of the model's files, and the commit where they come from a hub, "" for a folder.

    Raises ModelRefused; HubUnavailable.
    """
    path = Path(ref).expanduser()
    if path.is_dir():
        if revision:
            raise ModelRefused(f"revision {revision!r} was given for the folder {ref}: leave it out")
        if not (path / "config.json").is_file():
            raise ModelRefused(f"{ref} has no config.json: give the folder that a transformers model was saved to")
        return path.resolve(), ""
    if ref.startswith((".", "/", "~")):
        raise ModelRefused(f"{ref} is not a folder: give the folder that a transformers model was saved to")
    with TemporaryDirectory(prefix="plumbline-") as folder:
        pin_result = pin(ref, revision, endpoint, token, Path(folder))
        read_configuration(Path(folder), ref)  # refuses what is unsafe before its weights are fetched
    if not may_fetch and find_fetched(ref, pin_result.commit) is None:
        raise ModelRefused(f"{ref} is not on this machine: it is fetched when something is to be scored")
    return fetch(ref, pin_result.commit, endpoint, token), pin_result.commit
