"""Language models: what a reference means, what the model is, whether it is safe to load, and loading it.

    found = resolve("org/name")              # or a folder, or a GGUF file
    loaded = load(found.source, found.location, found.revision)

Only safetensors and GGUF are read, as float32 unless said otherwise; no code of a model's own is ever run.

What needs torch is imported when it is first asked for.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from scoring.language_models.description import Architecture, ResolvedModel
from scoring.language_models.hub import HUB_ID
from scoring.language_models.package import LoadedFile
from scoring.language_models.placing import place
from scoring.language_models.precision import Precision
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
from scoring.lazy import import_lazily

if TYPE_CHECKING:
    from scoring.language_models.architecture import inspect
    from scoring.language_models.loading import LoadedModel, load, load_files
    from scoring.language_models.resolving import resolve, resolve_hub

__getattr__ = import_lazily(
    __name__,
    {
        "architecture": ("inspect",),
        "loading": ("LoadedModel", "load", "load_files"),
        "resolving": ("resolve", "resolve_hub"),
    },
)
BUNDLED = Path(__file__).parent / "bundled"


def list_bundled() -> list[Path]:
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
    "inspect",
    "list_bundled",
    "load",
    "load_files",
    "place",
    "resolve",
    "resolve_hub",
]
