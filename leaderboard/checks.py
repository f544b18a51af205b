"""System checks: what is wrong with a board's settings, with the setting to change.

`manage.py check` looks at file permissions, `manage.py check --deploy` at all that matters once others can visit.
"""

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.http.request import validate_host

from leaderboard.private_files import OTHERS, open_to_others

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "")
LEAST_KEY, LEAST_SECRET = 32, 16  # characters
PLACEHOLDERS = ("...", "changeme", "change-me", "secret", "only-for-collectstatic", "django-insecure")
MOST_NAMED = 3
GB = 10**9


@register(Tags.security)
def check_permissions(**_: Any) -> list[CheckMessage]:
    """Whether PLUMBLINE_VAR and what lies in it is for one user."""
    return list(find_open_files())


@register(Tags.security, deploy=True)
def check_mail(**_: Any) -> list[CheckMessage]:
    """Whether letters reach anybody, and keep their password to themselves."""
    return list(find_mail_problems())


@register(Tags.security, deploy=True)
def check_tls(**_: Any) -> list[CheckMessage]:
    """Whether passwords and sessions travel encrypted."""
    return list(find_tls_problems())


@register(Tags.security, deploy=True)
def check_secrets(**_: Any) -> list[CheckMessage]:
    """Whether keys can be guessed or read."""
    return list(find_weak_secrets())


@register(Tags.security, deploy=True)
def check_proxies(**_: Any) -> list[CheckMessage]:
    """Whether the site knows who asks, and under which name."""
    return list(find_proxy_problems())


@register(Tags.security, deploy=True)
def check_content_policy(**_: Any) -> list[CheckMessage]:
    """Whether browsers keep to the Content-Security-Policy."""
    if not settings.CSP_REPORT_ONLY:
        return []
    return [
        Warning(
            "CSP_REPORT_ONLY = true: a script that is smuggled into a page runs.",
            hint="Set CSP_REPORT_ONLY=false once the browser's console reports nothing.",
            id="plumbline.W050",
        )
    ]


@register(Tags.security, deploy=True)
def check_cages(**_: Any) -> list[CheckMessage]:
    """Whether what strangers send is left alone where a protection from it is missing."""
    if settings.CAGE == "required":
        return []
    return [
        Warning(
            f"CAGE = {settings.CAGE}: models and files of strangers are read even on a host that lacks protections.",
            hint="Set CAGE=required; /operate/workers/ says what each worker's host lacks.",
            id="plumbline.W051",
        )
    ]


@register(deploy=True)
def check_storage(**_: Any) -> list[CheckMessage]:
    """Whether files are where the settings expect them."""
    return list(find_storage_problems())


def find_storage_problems() -> Iterator[CheckMessage]:
    """What is wrong with STORAGE_URL, STORAGE_ALSO_URL, STORAGE_DOWNLOADS and STORAGE_CACHE_GB."""
    entry = settings.STORAGES["default"]
    entries = entry["OPTIONS"].values() if "first" in entry["OPTIONS"] else (entry,)
    buckets = [part["OPTIONS"] for part in entries if "bucket_name" in part["OPTIONS"]]
    if "first" in entry["OPTIONS"]:
        yield Warning(
            "STORAGE_ALSO_URL is set: every read asks two storages.",
            hint="Take it out once `manage.py storage move` copies nothing more.",
            id="plumbline.W060",
        )
    if settings.STORAGE_DOWNLOADS == "signed" and not buckets:
        yield Warning(
            "STORAGE_DOWNLOADS = signed: files of a folder have no links, so they are streamed.",
            hint="Set STORAGE_URL to a bucket, or STORAGE_DOWNLOADS=streamed.",
            id="plumbline.W061",
        )
    if any((bucket["endpoint_url"] or "").startswith("http://") for bucket in buckets):
        yield Warning(
            "STORAGE_URL has an endpoint with http://: files travel unencrypted.",
            hint="Set its endpoint to https://, or keep the way to it in a network of your own and silence this check.",
            id="plumbline.W062",
        )
    if buckets and not (os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY")):
        yield Warning(
            "STORAGE_URL names a bucket, and AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is empty.",
            hint="Set both, unless this host has a role or a file of credentials that AWS's tools read.",
            id="plumbline.W063",
        )
    room = shutil.disk_usage(settings.VAR).total / GB
    if buckets and room < settings.STORAGE_CACHE_GB:
        yield Warning(
            f"STORAGE_CACHE_GB = {settings.STORAGE_CACHE_GB:g}: the disk of PLUMBLINE_VAR has {room:.0f} GB in all.",
            hint="Set STORAGE_CACHE_GB to what may lie there, or PLUMBLINE_VAR to a larger disk.",
            id="plumbline.W064",
        )


def find_open_files() -> Iterator[CheckMessage]:
    """Files and folders of PLUMBLINE_VAR that others have rights to."""
    owner = settings.VAR.stat().st_uid
    if owner != os.geteuid():
        yield Warning(
            f"PLUMBLINE_VAR = {settings.VAR} belongs to user {owner}, and this process is user {os.geteuid()}.",
            hint="Run every process of the board as one user: chown -R USER the folder, or set User= of the units.",
            id="plumbline.W011",
        )
        return
    paths = list(islice(open_to_others(settings.VAR), MOST_NAMED + 1))
    if paths:
        names = ", ".join(str(path) for path in paths[:MOST_NAMED]) + (" and more" if len(paths) > MOST_NAMED else "")
        yield Warning(
            f"PLUMBLINE_VAR = {settings.VAR} holds what other users of this machine may read: {names}.",
            hint=f"chmod -R go= {settings.VAR}; `manage.py up` does it as it starts.",
            id="plumbline.W010",
        )


def find_mail_problems() -> Iterator[CheckMessage]:
    """What is wrong with EMAIL_URL and DEFAULT_FROM_EMAIL."""
    if settings.EMAIL_BACKEND == "leaderboard.terminal_letters.TerminalLetters":
        yield Warning(
            "EMAIL_URL = console://: letters are written to the terminal, so nobody can confirm an address.",
            hint="Set EMAIL_URL to a mail server, as in submission://USER:PASSWORD@smtp.example.org:587.",
            id="plumbline.W001",
        )
    if settings.DEFAULT_FROM_EMAIL.rstrip(">").endswith("@localhost"):
        yield Warning(
            f"DEFAULT_FROM_EMAIL = {settings.DEFAULT_FROM_EMAIL}: mail servers refuse letters from localhost.",
            hint="Set DEFAULT_FROM_EMAIL to an address of the board's domain, as in Board <board@example.org>.",
            id="plumbline.W002",
        )
    is_encrypted = settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL
    if settings.EMAIL_HOST_PASSWORD and not is_encrypted and settings.EMAIL_HOST not in LOCAL_HOSTS:
        yield Warning(
            f"EMAIL_URL sends its password to {settings.EMAIL_HOST} unencrypted.",
            hint="Write EMAIL_URL with submission:// (STARTTLS) or smtps:// in place of smtp://.",
            id="plumbline.W003",
        )


def find_tls_problems() -> Iterator[CheckMessage]:
    """What is wrong with HTTPS_ONLY and SITE_URL."""
    site = urlsplit(settings.SITE_URL)
    if not settings.HTTPS_ONLY:
        yield Warning(
            "HTTPS_ONLY = false: passwords, sessions and API tokens travel unencrypted.",
            hint="Put a proxy with a certificate before the site (deploy/Caddyfile) and set HTTPS_ONLY=true.",
            id="plumbline.W020",
        )
    if site.scheme != "https" and site.hostname not in LOCAL_HOSTS:
        yield Warning(
            f"SITE_URL = {settings.SITE_URL}: links in letters lead to an unencrypted address.",
            hint="Set SITE_URL to the https:// address of the board.",
            id="plumbline.W021",
        )


def find_weak_secrets() -> Iterator[CheckMessage]:
    """Keys that are short or well known, and a file of settings that others can read."""
    key = settings.SECRET_KEY
    if len(key) < LEAST_KEY or any(key.lower().startswith(word) for word in PLACEHOLDERS):
        yield Error(
            f"SECRET_KEY has {len(key)} characters or is a well-known one: who guesses it can sign in as anybody.",
            hint='Set SECRET_KEY to what python3 -c "import secrets; print(secrets.token_hex(25))" prints.',
            id="plumbline.E030",
        )
    for name in ("METRICS_TOKEN", "ALERT_SECRET"):
        value = getattr(settings, name)
        if value and len(value) < LEAST_SECRET:
            yield Warning(
                f"{name} has {len(value)} characters: it can be guessed.",
                hint=f"Set {name} to {LEAST_SECRET} random characters or more.",
                id="plumbline.W031",
            )
    file = settings.BASE_DIR / ".env"
    if file.exists() and file.stat().st_mode & OTHERS:
        yield Warning(
            f"{file} holds secrets, and other users of this machine may read it.",
            hint=f"chmod 600 {file}",
            id="plumbline.W032",
        )


def find_proxy_problems() -> Iterator[CheckMessage]:
    """What is wrong with TRUSTED_PROXIES and ALLOWED_HOSTS."""
    proxies = settings.ALLAUTH_TRUSTED_PROXY_COUNT
    if settings.HTTPS_ONLY and not proxies:
        yield Warning(
            "TRUSTED_PROXIES = 0 behind a proxy: all visitors have its address, and share one limit of requests.",
            hint="Set TRUSTED_PROXIES to the number of proxies that add to X-Forwarded-For, usually 1.",
            id="plumbline.W040",
        )
    if proxies and not settings.HTTPS_ONLY:
        yield Warning(
            f"TRUSTED_PROXIES = {proxies} without HTTPS_ONLY: who comes past the proxy can claim any address.",
            hint="Set HTTPS_ONLY=true and let nothing but the proxy reach the site, or set TRUSTED_PROXIES=0.",
            id="plumbline.W041",
        )
    if "*" in settings.ALLOWED_HOSTS:
        yield Warning(
            "ALLOWED_HOSTS has *: links in letters and pages can be made to lead elsewhere.",
            hint="Set ALLOWED_HOSTS to the names of the board.",
            id="plumbline.W042",
        )
    host = urlsplit(settings.SITE_URL).hostname or ""
    if not validate_host(host, settings.ALLOWED_HOSTS):
        yield Warning(
            f"SITE_URL = {settings.SITE_URL}: ALLOWED_HOSTS does not name {host}, so links in letters are refused.",
            hint=f"Add {host} to ALLOWED_HOSTS, or correct SITE_URL.",
            id="plumbline.W043",
        )
