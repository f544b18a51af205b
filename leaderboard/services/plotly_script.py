"""The script that readers load to explore a chart: of Plotly, the part that draws charts with axes.

The Python package ships Plotly as a whole, of which a board needs a third. The part is published on npm alone.
"""

import hashlib
import io
import tarfile
from pathlib import Path

import httpx
from django.conf import settings

from scoring.refusals import Refused

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
        response = httpx.get(address, timeout=TIMEOUT, follow_redirects=True).raise_for_status()
    except httpx.HTTPError as error:
        raise ScriptRefused(f"{address}: {error}. {REMEDY}; or set PLOTLY_ARCHIVE to a mirror") from error
    if hashlib.sha512(response.content).hexdigest() != SHA512:
        raise ScriptRefused(f"{address} is not the archive that was published as 4.1.1. {REMEDY}")
    with tarfile.open(fileobj=io.BytesIO(response.content)) as archive:
        member = archive.extractfile(MEMBER)
        content = member.read() if member else b""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / Path(MEMBER).name
    path.write_bytes(content)
    return path
