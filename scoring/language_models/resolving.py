"""From what a person writes to a model with a pinned revision."""

from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from scoring.language_models.description import Describe, Description, ResolvedModel
from scoring.language_models.downloads import declared_size
from scoring.language_models.hub import PUBLIC_HUB, pin
from scoring.language_models.refusals import ModelRefused
from scoring.language_models.revisions import file_revision, folder_revision


def describe_here(path: Path, name: str, files: Collection[str]) -> Description:
    """As `describing.describe`, in this process."""
    from scoring.language_models.describing import describe  # with torch, which whoever asks a cage does without

    return describe(path, name, files)


def resolve(
    ref: str,
    *,
    revision: str | None = None,
    endpoint: str = PUBLIC_HUB,
    token: str | None = None,
    describe: Describe = describe_here,
) -> ResolvedModel:
    """What `ref` means: an existing folder or GGUF file, else a hub id, at `revision` (a branch, tag or commit).

    Raises ModelRefused with a remedy, or HubUnavailable when the hub cannot be asked.
    """
    path = _path(ref)
    if path:
        if revision:
            raise ModelRefused(
                f"revision {revision!r} was given for {ref}, but files are pinned by their contents: leave it out"
            )
        return _local(path, describe)
    try:
        validate_repo_id(ref)
    except HFValidationError as error:
        raise ModelRefused(
            f"{ref!r} is neither a path that exists nor a hub id: give a folder, a .gguf file, or an id like org/name"
        ) from error
    return resolve_hub(ref, revision=revision, endpoint=endpoint, token=token, describe=describe)


def resolve_hub(
    ref: str,
    *,
    revision: str | None = None,
    endpoint: str = PUBLIC_HUB,
    token: str | None = None,
    patience: float | None = None,
    describe: Describe = describe_here,
    private_too: bool = True,
) -> ResolvedModel:
    """What the hub id `ref` means, whatever lies on this machine; nothing of it is kept here.

    `patience` and `private_too` are those of `pin`. Raises as `resolve` does.
    """
    with TemporaryDirectory(prefix="plumbline-") as folder:
        pin_result = pin(ref, revision or None, endpoint, token, Path(folder), patience, private_too=private_too)
        description = describe(Path(folder), ref, list(pin_result.files))
    weights = sum(declared_size(ref, pin_result.files[name]) for name in description.weights)
    return ResolvedModel(
        "hub",
        pin_result.ref,
        pin_result.commit,
        description.architecture,
        pin_result.licence,
        weights,
        description.chat_template,
        description.weight_format,
    )


def _path(ref: str) -> Path | None:
    """The absolute path that `ref` means, None if it means none."""
    if not ref:
        return None
    try:
        path = Path(ref).expanduser()
        if path.exists() or ref.startswith((".", "/", "~")) or ref.endswith(".gguf") or ref.count("/") > 1:
            return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, a home of nobody, a zero byte
        raise ModelRefused(f"{ref!r} is no path of this machine ({error}): check it") from error
    return None


def _local(path: Path, describe: Describe) -> ResolvedModel:
    if not path.exists():
        raise ModelRefused(f"{path} does not exist: give a folder with safetensors, or a .gguf file")
    if path.is_dir() and not (path / "config.json").exists():
        candidates = sorted(path.glob("*.gguf"))
        if len(candidates) != 1:
            raise ModelRefused(
                f"{path} has no config.json and {len(candidates)} .gguf files: name one of them, or give the folder "
                "that a transformers model was saved to"
            )
        path = candidates[0]
    if path.is_dir():
        source, revision = "folder", folder_revision(path)
        files = [file.name for file in path.iterdir() if file.is_file()]
    elif path.suffix == ".gguf":
        source, files, revision = "gguf", [path.name], file_revision(path)
    else:
        raise ModelRefused(f"{path} is a file, but not a .gguf file: give its folder, or convert it to safetensors")
    description = describe(path, str(path), files)
    return ResolvedModel(
        source,
        str(path),
        revision,
        description.architecture,
        description.licence,
        chat_template=description.chat_template,
        weight_format=description.weight_format,
    )
