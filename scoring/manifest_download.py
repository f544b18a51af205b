"""Download of a published version: its manifest, and the artefacts for which the manifest gives an address."""

from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urljoin

import httpx

from scoring.evaluation_sets.catalogue import CatalogueFile
from scoring.evaluation_sets.fetch import TIMEOUT, Progress, fetch_files
from scoring.manifest import MANIFEST, SHA256, ManifestError, artefact_path, read_manifest


def download(
    url: str, folder: Path, *, client: httpx.Client | None = None, progress: Progress | None = None
) -> list[str]:
    """Download the manifest at `url` and its artefacts into `folder`, in the layout of `scoring.manifest.check`.

    Returns the sha256 of each artefact that the board does not pass on. Downloads are resumed and verified like the
    files of an evaluation set. Raises ManifestError, FetchError, OSError.
    """
    with nullcontext(client) if client else httpx.Client(timeout=TIMEOUT) as session:
        try:
            response = session.get(url)
            response.raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ManifestError(f"{url}: {error}; give the address of a manifest.json") from error
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{MANIFEST}"
        part.write_bytes(response.content)
        part.replace(folder / MANIFEST)
        try:
            artefacts = read_manifest(folder)["artefacts"]
            files = [
                CatalogueFile(artefact_path(sha256), urljoin(url, description["url"]), int(description["size"]), sha256)
                for sha256, description in artefacts.items()
                if description["url"] and SHA256.fullmatch(sha256)
            ]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ManifestError(f"{url} is no manifest: {error!r}") from error
        fetch_files(files, folder, client=session, progress=progress)
    return [sha256 for sha256, description in artefacts.items() if not description["url"]]
