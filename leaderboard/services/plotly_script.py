"""The script that readers load to explore a chart: of Plotly, the part that draws charts with axes.

The Python package ships Plotly as a whole, of which a board needs a third. The part is published for npm alone: npm
brings it, or the archive comes from an address that the operator sets.
"""

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from django.conf import settings

from scoring.refusals import Refused

PACKAGE = "plotly.js-cartesian-dist-min@4.1.1"
MEMBER = "package/plotly-cartesian.min.js"
SHA512 = (  # of the archive of version 4.1.1, as npm names it
    "a3c1ab15ebac9dcc012316c1ca7449a58e29920541e9c68cf892e9c2b2d86dbb"
    "0eedd67c149f9254dd85afe2fb9221bf67ac383f93b426eb3f42be4479f1d57a"
)
TIMEOUT = 30  # seconds
REMEDY = "Charts can be explored all the same, with the whole of Plotly"


class ScriptRefused(Refused):
    """Plotly's part cannot be brought here."""


def fetch_script(folder: Path) -> Path:
    """Bring the script into `folder`, checked. Raises ScriptRefused where it cannot be had or is another one."""
    address = settings.PLOTLY_ARCHIVE
    try:
        archive_bytes = download(address) if address else pack()
    except (httpx.HTTPError, OSError, subprocess.SubprocessError) as error:
        raise ScriptRefused(
            f"{address or 'npm'}: {error}. {REMEDY}; or install npm, or set PLOTLY_ARCHIVE to the archive's address"
        ) from error
    if hashlib.sha512(archive_bytes).hexdigest() != SHA512:
        raise ScriptRefused(f"What {address or 'npm'} gave is not the archive that was published as 4.1.1. {REMEDY}")
    with tarfile.open(fileobj=io.BytesIO(archive_bytes)) as archive:
        member = archive.extractfile(MEMBER)
        content = member.read() if member else b""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / Path(MEMBER).name
    path.write_bytes(content)
    return path


def download(address: str) -> bytes:
    """What is at `address`. Raises HTTPError."""
    return httpx.get(address, timeout=TIMEOUT, follow_redirects=True).raise_for_status().content


def pack() -> bytes:
    """The archive as npm has it. Raises OSError where there is no npm, SubprocessError where it fails."""
    with TemporaryDirectory() as folder:
        command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT)  # noqa: S603 (all words are ours)
        return next(Path(folder).iterdir()).read_bytes()
