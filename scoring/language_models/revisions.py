"""The revision of a model that lies on this machine: one hash for all that it is."""

import hashlib
from pathlib import Path

from scoring.artefacts import sha256

RELEVANT = (".json", ".txt", ".model", ".safetensors", ".jinja")


def folder_revision(folder: Path) -> str:
    """`sha256:` and a hash of the names and contents of the folder's relevant files."""
    files = sorted(path for path in folder.iterdir() if path.suffix in RELEVANT and path.is_file())
    lines = [f"{sha256(path)}  {path.name}" for path in files]
    return f"sha256:{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


def file_revision(path: Path) -> str:
    """`sha256:` and the hash of one file."""
    return f"sha256:{sha256(path)}"
