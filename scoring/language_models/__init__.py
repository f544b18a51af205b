"""Language models: what a reference means, what the model is, whether it is safe to load, and loading it.

    found = resolve("org/name")              # or a folder, or a GGUF file
    loaded = load(found.source, found.location, found.revision)
"""

from pathlib import Path

from scoring.language_models.architecture import Architecture, inspect
from scoring.language_models.loading import LoadedModel, load
from scoring.language_models.refusals import HubUnavailable, ModelRefused, RevisionChanged
from scoring.language_models.resolving import ResolvedModel, resolve

BUNDLED = Path(__file__).parent / "bundled"


def bundled() -> list[Path]:
    """Folders of the models that come with Plumbline, smallest weights first."""
    folders = [path.parent for path in BUNDLED.glob("*/model.safetensors") if (path.parent / "README.md").exists()]
    return sorted(folders, key=lambda folder: ((folder / "model.safetensors").stat().st_size, folder.name))


__all__ = [
    "BUNDLED",
    "Architecture",
    "HubUnavailable",
    "LoadedModel",
    "ModelRefused",
    "ResolvedModel",
    "RevisionChanged",
    "bundled",
    "inspect",
    "load",
    "resolve",
]
