"""STORAGE_URL: where files are kept, read into what Django's STORAGES takes."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PARAMETERS = ("endpoint", "region")
FORMS = (
    "set it to file:///absolute/folder or s3://bucket/prefix?endpoint=https://storage.example.org&region=eu-central-1, "
    "or leave it empty for PLUMBLINE_VAR/artefacts"
)


class WrongAddress(ValueError):
    """An address that names no storage; the message says what is wrong without showing the address."""


def read_storage_address(address: str) -> dict[str, Any]:
    """The entry of STORAGES for an address. Raises WrongAddress."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise WrongAddress(f"it is no address ({error}): {FORMS}") from error
    if "@" in parts.netloc:
        raise WrongAddress(
            "it holds credentials: take them out, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        )
    if parts.scheme == "file":
        return _read_folder(unquote(parts.path), parts.netloc)
    if parts.scheme == "s3":
        return _read_bucket(parts.netloc, unquote(parts.path).strip("/"), parts.query)
    raise WrongAddress(f"it begins with {parts.scheme or 'no scheme'}: {FORMS}")


def folder_entry(folder: Path) -> dict[str, Any]:
    """The entry of STORAGES for a folder."""
    return {"BACKEND": "leaderboard.storage.folder.FolderStorage", "OPTIONS": {"location": folder}}


def read_both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The entry of STORAGES for a storage that is written to, and another that is read as well."""
    return {"BACKEND": "leaderboard.storage.both.BothStorages", "OPTIONS": {"first": first, "second": second}}


def _read_folder(path: str, host: str) -> dict[str, Any]:
    if host or not path.startswith("/"):
        raise WrongAddress(f"a folder is given by its absolute path, after three slashes: {FORMS}")
    return folder_entry(Path(path))


def _read_bucket(bucket: str, prefix: str, query: str) -> dict[str, Any]:
    if not BUCKET.fullmatch(bucket):
        raise WrongAddress(f"it names no bucket (3 to 63 small letters, digits, dots and hyphens): {FORMS}")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    unknown_names = sorted(set(parameters).difference(PARAMETERS))
    if unknown_names:
        raise WrongAddress(f"it has the parameter {unknown_names[0]}: the parameters are {' and '.join(PARAMETERS)}")
    endpoint = parameters.get("endpoint", "")
    if endpoint and not re.match(r"https?://[^/@?#]+/?$", endpoint):
        raise WrongAddress("its endpoint is no address of a server: set it as in endpoint=https://storage.example.org")
    options = {
        "bucket_name": bucket,
        "location": prefix,
        "endpoint_url": endpoint.rstrip("/") or None,
        "region_name": parameters.get("region") or None,
    }
    return {"BACKEND": "leaderboard.storage.bucket.BucketStorage", "OPTIONS": options}
