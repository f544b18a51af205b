"""Language models: what a reference means, what the model is, whether it is safe to load, and loading it.

    found = resolve("org/name")              # or a folder, or a GGUF file
    loaded = load(found.source, found.location, found.revision)

Only safetensors and GGUF are read, as float32 unless said otherwise; no code of a model's own is ever run.

What needs torch is imported when it is first asked for: a process that only fetches files starts without.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from scoring.language_models.hub import HUB_ID
from scoring.language_models.package import LoadedFile
from scoring.language_models.refusals import (
    FailedSelfTest,
    Gated,
    HubBusy,
    HubUnavailable,
    ModelRefused,
    NoSuchRevision,
    NotFinite,
    NotOnHub,
    RevisionChanged,
)

if TYPE_CHECKING:
    from scoring.language_models.architecture import Architecture, inspect
    from scoring.language_models.loading import LoadedModel, Precision, load, load_files, place
    from scoring.language_models.resolving import ResolvedModel, resolve, resolve_hub

WITH_TORCH = {
    "architecture": ("Architecture", "inspect"),
    "loading": ("LoadedModel", "Precision", "load", "load_files", "place"),
    "resolving": ("ResolvedModel", "resolve", "resolve_hub"),
}
MODULES = {name: module for module, names in WITH_TORCH.items() for name in names}
BUNDLED = Path(__file__).parent / "bundled"


def __getattr__(name: str) -> object:
    """A name of `WITH_TORCH`, by the import of its module."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)


def bundled() -> list[Path]:
    """Folders of the models that come with Plumbline and are whole (weights, configuration and card), by name."""
    whole = ("model.safetensors", "config.json", "README.md")
    return sorted(folder for folder in BUNDLED.glob("*") if all((folder / name).is_file() for name in whole))


__all__ = [
    "BUNDLED",
    "HUB_ID",
    "Architecture",
    "FailedSelfTest",
    "Gated",
    "HubBusy",
    "HubUnavailable",
    "LoadedFile",
    "LoadedModel",
    "ModelRefused",
    "NoSuchRevision",
    "NotFinite",
    "NotOnHub",
    "Precision",
    "ResolvedModel",
    "RevisionChanged",
    "bundled",
    "inspect",
    "load",
    "load_files",
    "place",
    "resolve",
    "resolve_hub",
]
