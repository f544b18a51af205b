"""Settings, all from the environment, all with a default that works. `.env.example` lists them."""

import hashlib
import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from celery.schedules import crontab
from csp.constants import NONCE, NONE, SELF, UNSAFE_INLINE
from django.core.exceptions import ImproperlyConfigured
from environs import Env, validate

from leaderboard.private_files import FILE_MODE, FOLDER_MODE, prepare_folder
from leaderboard.storage.addresses import WrongAddress, folder_entry, read_both, read_storage_address

BASE_DIR = Path(__file__).resolve().parent.parent
env = Env()
env.read_env(BASE_DIR / ".env", recurse=False)
NOT_NEGATIVE, SOME, ONE_OR_MORE = (
    validate.Range(min=least, error="{input}: set it to {min} or more") for least in (0, 0.1, 1)
)
ABOVE_0 = validate.Range(min=0, min_inclusive=False, error="{input}: set it to more than 0")
# An address may hold a secret: no message shows it.
ADDRESS = validate.Regexp("https?://|$", error="set it with its scheme, as in https://board.example.org")

DEBUG = env.bool("DEBUG", False)


def _path(name: str, default: Path) -> Path:
    """Return a path; the default where the setting is empty, which would mean the current folder."""
    return Path(env.str(name, str(default)) or default)


VAR = _path("PLUMBLINE_VAR", BASE_DIR / "var").resolve()
prepare_folder(VAR)


def _list(name: str, default: Sequence[str] = (), check: Callable[[list[str]], object] = len) -> list[str]:
    """Return the items of a setting that commas separate, without blanks around them and without empty ones.

    check: raises ValidationError for items that will not do.
    """
    items = env.list(name, [*default], subcast=str.strip, validate=lambda texts: check([*filter(None, texts)]))
    return [*filter(None, items)]


def _secret_key() -> str:
    """Return the key from the environment, or one made for this installation and stored beside its database."""
    from django.core.management.utils import get_random_secret_key

    if key := env.str("SECRET_KEY", ""):
        return str(key)
    path = VAR / "secret_key"
    if not path.exists():
        try:
            with path.open("x") as file:
                file.write(get_random_secret_key())
        except FileExistsError:
            pass  # another process of this installation was first: its key is as good
    return path.read_text().strip()


def _client(name: str) -> dict[str, str] | None:
    """Return the board's client id and secret at a provider of log-ins; None if the environment has neither."""
    credentials = env.str(f"{name}_CLIENT_ID", ""), env.str(f"{name}_CLIENT_SECRET", "")
    if any(credentials) and not all(credentials):
        raise ImproperlyConfigured(f"{name}_CLIENT_ID and {name}_CLIENT_SECRET: set both of them or neither")
    return {"client_id": credentials[0], "secret": credentials[1]} if all(credentials) else None


def _number_or_none(name: str) -> float | None:
    """Return a number of 0 or more; None where the setting is empty or not there."""
    return float(env.float(name, validate=NOT_NEGATIVE)) if env.str(name, "") else None


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = _list("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = _list("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "leaderboard.apps.Admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django_structlog",
    "leaderboard.apps.StaticFiles",
    "django_htmx",
    "template_partials",
    "leaderboard.apps.LeaderboardConfig",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.github",
    "allauth.socialaccount.providers.openid_connect",
]
MIDDLEWARE = [
    "leaderboard.middleware.RequestLog",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "leaderboard.middleware.ContentPolicy",
    "leaderboard.middleware.limit_visits",
    "leaderboard.middleware.refuse_many_parameters",
    "leaderboard.compression.CompressPages",
    "leaderboard.api.front.front",
    "leaderboard.middleware.refuse_nul",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]
ROOT_URLCONF = "leaderboard.urls"
WSGI_APPLICATION = "leaderboard.wsgi.application"
ASGI_APPLICATION = "leaderboard.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["leaderboard.templatetags.layout"],
        },
    }
]

# Database: SQLite in var/, or any URL such as postgresql://user:password@host/name
DATABASES = {
    "default": env.dj_db_url(
        "DATABASE_URL", f"sqlite:///{VAR / 'plumbline.sqlite3'}", conn_max_age=60, conn_health_checks=True
    )
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A writer takes its lock at the start of a transaction and waits for it, instead of failing half-way through.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 30,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
    DATABASES["default"]["TEST"] = {"NAME": VAR / "test.sqlite3"}  # a file, which workers in other processes can open
elif DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    # A pulled cable is noticed within a minute at both of its ends: no worker waits for ever, and none keeps
    # the locks of a transaction whose worker is away.
    DATABASES["default"]["OPTIONS"] = {
        **{"connect_timeout": 10, "keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 6},
        "tcp_user_timeout": 45_000,
        "options": (
            "-c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=6 -c tcp_user_timeout=45000"
        ),
        **DATABASES["default"].get("OPTIONS", {}),
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_pages_folder = {
    "BACKEND": "leaderboard.caches.FolderCache",
    "LOCATION": str(VAR / "pages"),
    "OPTIONS": {"MAX_ENTRIES": 2000},
}
CACHES: dict[str, Any] = {
    # What attempts and requests of the API are counted in: the database, which all web processes of a board share.
    "default": {"BACKEND": "leaderboard.caches.TableCache"},
    # Pages that were made already: in a Redis, or in a folder that the web processes of a host share
    "pages": env.dj_cache_url("CACHE_URL") if env.str("CACHE_URL", "") else _pages_folder,
}
if CACHES["pages"]["BACKEND"].endswith("RedisCache"):
    CACHES["pages"].setdefault("OPTIONS", {})["serializer"] = "leaderboard.caches.JsonSerializer"
elif not CACHES["pages"]["BACKEND"].endswith(("FolderCache", "DummyCache")):
    raise ImproperlyConfigured("CACHE_URL: leave it out, or set it as in redis://host:6379/1; others keep pickles")
# Requests of a minute by address: in each web process's memory, or for all of them in that Redis. Not in the database:
# a page that is kept costs less than a write there.
CACHES["visits"] = {**CACHES["pages"], "KEY_PREFIX": "visits"}
if CACHES["visits"]["BACKEND"].endswith("FolderCache"):
    _memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "visits"}
    CACHES["visits"] = {**_memory, "OPTIONS": {"MAX_ENTRIES": 100_000}}
# Web processes look at the board's state as often as this at most; 0: for every request.
BOARD_LOOK_SECONDS = env.float("BOARD_LOOK_SECONDS", 0.5, validate=NOT_NEGATIVE)
# Pages that one web process makes at a time, requests that wait for one of these, and how long an answer may take: who
# could not have the page by then gets a 503 as soon as that is clear.
PAGE_MAKERS = env.int("PAGE_MAKERS", 2, validate=ONE_OR_MORE)
PAGE_LINE = env.int("PAGE_LINE", 10, validate=NOT_NEGATIVE)
PAGE_WAIT_SECONDS = env.float("PAGE_WAIT_SECONDS", 2.0, validate=NOT_NEGATIVE)

# Broker: the Redis that `manage.py up` starts in var/, or any URL such as redis://host:6379/0
EMBEDDED_REDIS_SOCKET = VAR / "redis.sock"
BROKER_URL = env.str("BROKER_URL", "")
EMBEDDED_BROKER = not BROKER_URL
CELERY_BROKER_URL = BROKER_URL or f"redis+socket://{EMBEDDED_REDIS_SOCKET}"
CELERY_IMPORTS = ["leaderboard.worker"]
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_POOL = "threads"  # not processes: work hears at once that its worker is asked to stop
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = (
    "leaderboard.celery.route_work",
    {
        "leaderboard.tasks.scrub_files": {"queue": "downloads"},
        "leaderboard.tasks.restore_file": {"queue": "downloads"},
    },
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    **{"visibility_timeout": 3600, "socket_timeout": 10, "socket_connect_timeout": 5},
    "socket_keepalive": True,  # a worker that waits for messages notices a pulled cable as well
    "socket_keepalive_options": {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 6},
}
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0.1, "interval_max": 0.5}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"

# Work: how long a silent worker keeps its claim, how often the sweeper looks, how long one task may hold a worker.
LEASE_SECONDS = env.float("LEASE_SECONDS", 60.0, validate=ONE_OR_MORE)
SWEEP_SECONDS = env.float("SWEEP_SECONDS", 2.0, validate=ABOVE_0)
_most = "{input}: set it to more than 0 and at most {max}, beyond which the broker hands out running tasks again"
_slice = validate.Range(min=0, min_inclusive=False, max=1800, error=_most)
SLICE_SECONDS = env.float("SLICE_SECONDS", 600.0, validate=_slice)
SHARD_TEXTS = env.int("SHARD_TEXTS", 256, validate=ONE_OR_MORE)
SHARD_SCORES = env.int("SHARD_SCORES", 2000, validate=ONE_OR_MORE)
MOST_ATTEMPTS = env.int("MOST_ATTEMPTS", 5, validate=ONE_OR_MORE)
# How long a run may take in all, and how long work may go on without any progress.
RUN_SECONDS = env.float("RUN_SECONDS", 604_800.0, validate=ABOVE_0)
NO_PROGRESS_SECONDS = env.float("NO_PROGRESS_SECONDS", 900.0, validate=ABOVE_0)
# Whether work on what strangers send goes on where this host lacks a protection: said (best), or refused (required).
_cages = (
    "CAGE = {input!r}: set it to best (use the protections that this host has, and say which it lacks) or required "
    "(refuse work where one is missing)"
)
CAGE = env.str("CAGE", "best", validate=validate.OneOf(("best", "required"), error=_cages))
CHECK_SECONDS = env.float("CHECK_SECONDS", 86_400.0, validate=ABOVE_0)
OPENING_REPLICATES = env.int("OPENING_REPLICATES", 21, validate=ONE_OR_MORE)  # below 5 a rollout cannot be told
OPENING_SPREAD_SECONDS = env.float("OPENING_SPREAD_SECONDS", 3600.0, validate=NOT_NEGATIVE)
EXPORT_SECONDS = env.float("EXPORT_SECONDS", 3600.0, validate=ABOVE_0)
CELERY_BEAT_SCHEDULE = {
    "watch": {"task": "leaderboard.tasks.watch", "schedule": min(60.0, CHECK_SECONDS)},
    "scrub": {"task": "leaderboard.tasks.scrub_files", "schedule": crontab(hour="3", minute="17")},  # UTC
}
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR / "celerybeat-schedule")

# This machine, as its workers call it: two hosts of a board have two names.
HOST = env.str("PLUMBLINE_HOST", "") or socket.gethostname()

# Insight: who may read /metrics, and who receives alerts
METRICS_TOKEN = env.str("METRICS_TOKEN", "")
REQUEST_COUNTS = VAR / "requests"  # where all web processes count, in files that prometheus_client keeps
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(REQUEST_COUNTS)  # which it reads as it is imported
ALERT_WEBHOOK = _list("ALERT_WEBHOOK", check=lambda addresses: [*map(ADDRESS, addresses)])
_mail = validate.Regexp(".+@", error="set it to e-mail addresses, separated by commas")
ALERT_EMAIL = _list("ALERT_EMAIL", check=lambda addresses: [*map(_mail, addresses)])
ALERT_SECRET = env.str("ALERT_SECRET", "")
ALERT_WORKERS_SECONDS = env.float("ALERT_WORKERS_SECONDS", 60.0, validate=NOT_NEGATIVE)
ALERT_SCORER_SECONDS = env.float("ALERT_SCORER_SECONDS", 3600.0, validate=NOT_NEGATIVE)
# Told within two minutes: a sweep that is overdue, a rescoring that stands, a disk with less room than this.
ALERT_SWEEP_SECONDS = env.float("ALERT_SWEEP_SECONDS", max(60.0, 6 * SWEEP_SECONDS), validate=NOT_NEGATIVE)
ALERT_STILL_SECONDS = env.float("ALERT_STILL_SECONDS", 75.0, validate=NOT_NEGATIVE)
ALERT_DISK_GB = env.float("ALERT_DISK_GB", 2.0, validate=NOT_NEGATIVE)
# A dead man's switch as of healthchecks: told each half minute that this board works, and /fail where it does not.
DEAD_MAN_PING = env.str("DEAD_MAN_PING", "", validate=ADDRESS).rstrip("/")
SENTRY_DSN = env.str("SENTRY_DSN", "")

# Backups: seconds between two of them (0: none are configured), and for the process that writes them, where to and for
# whose keys: public keys of age, or names of GPG keys. A bucket may have other credentials than the storage's.
BACKUP_SECONDS = env.float("BACKUP_SECONDS", 0.0, validate=NOT_NEGATIVE)
BACKUP_TARGET = env.str("BACKUP_TARGET", "")
BACKUP_RECIPIENT = _list("BACKUP_RECIPIENT")
BACKUP_ACCESS_KEY_ID = env.str("BACKUP_ACCESS_KEY_ID", "")
BACKUP_SECRET_ACCESS_KEY = env.str("BACKUP_SECRET_ACCESS_KEY", "")

# Files
PLUMBLINE_DATA = _path("PLUMBLINE_DATA", VAR / "data")
MEDIA_ROOT = VAR / "artefacts"
FILE_UPLOAD_PERMISSIONS, FILE_UPLOAD_DIRECTORY_PERMISSIONS = FILE_MODE, FOLDER_MODE
# A folder, or a bucket of an S3 server. Credentials of a bucket are AWS's own variables; boto3 reads them.
# STORAGE_ALSO_URL is read as well, while files move from one to the other.


def _storage_of(name: str, default: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the entry of STORAGES for the setting; `default` where it is empty."""
    address = env.str(name, "")
    try:
        return read_storage_address(address) if address else default
    except WrongAddress as error:
        raise ImproperlyConfigured(f"{name}: {error}") from None


_storage = _storage_of("STORAGE_URL", folder_entry(MEDIA_ROOT)) or {}
_also = _storage_of("STORAGE_ALSO_URL", None)
if _also == _storage:
    raise ImproperlyConfigured("STORAGE_ALSO_URL names the same storage as STORAGE_URL: leave it empty")
# GB that the copies of a bucket's files may take on this host, in PLUMBLINE_VAR/copies.
STORAGE_CACHE_GB = env.float("STORAGE_CACHE_GB", 20.0, validate=NOT_NEGATIVE)
# How visitors get files of a bucket: from the web process, or from the bucket itself by a link that holds for minutes.
_downloads = validate.OneOf(("streamed", "signed"), error="STORAGE_DOWNLOADS = {input!r}: set it to streamed or signed")
STORAGE_DOWNLOADS = env.str("STORAGE_DOWNLOADS", "streamed", validate=_downloads)
STORAGES = {
    "default": read_both(_storage, _also) if _also else _storage,
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
STATIC_URL = "static/"
STATIC_ROOT = VAR / "static"
# Plotly's script: the part that `manage.py fetch_plotly` brought into this environment, a third of the whole; else the
# whole one, which lies in its package. That need not be imported.
PLOTLY_ARCHIVE = env.str("PLOTLY_ARCHIVE", "", validate=ADDRESS)  # "": npm brings it
PLOTLY_PART = Path(sys.prefix) / "share" / "plumbline"
PLOTLY = find_spec("plotly")
if PLOTLY is None or PLOTLY.origin is None:
    raise ImproperlyConfigured("plotly is not installed: install what requirements.lock pins")
if (PLOTLY_PART / "plotly-cartesian.min.js").exists():
    PLOTLY_SCRIPT, PLOTLY_FOLDER = "plotly/plotly-cartesian.min.js", PLOTLY_PART
else:
    PLOTLY_SCRIPT, PLOTLY_FOLDER = "plotly/plotly.min.js", Path(PLOTLY.origin).parent / "package_data"
STATICFILES_DIRS = [BASE_DIR / "static", ("plotly", PLOTLY_FOLDER)]

# Models from a hub, and from completions servers
HUB_ENDPOINT = env.str("HF_ENDPOINT", "https://huggingface.co")
HUB_TOKEN = env.str("HF_TOKEN", "") or None
HUB_PATIENCE_SECONDS = env.float("HUB_PATIENCE_SECONDS", 10.0, validate=SOME)
HUB_CACHE_GB = env.float("HUB_CACHE_GB", 100.0, validate=SOME)
WORKER_MEMORY_GB = env.float("WORKER_MEMORY_GB", 0.0, validate=NOT_NEGATIVE)  # 0: as much as this machine has
# Of models that stay loaded between tasks; None: a quarter of the worker's memory.
KEPT_MODELS_GB = _number_or_none("KEPT_MODELS_GB")
# Computed in though a worker measures that it is slow in them; scoring reads the environment itself.
SLOW_PRECISIONS = _list("SLOW_PRECISIONS", check=validate.ContainsOnly(("float32", "bfloat16", "float16")))
HUB_CACHE_BYTES = int(HUB_CACHE_GB * 1e9)
COMPLETIONS_API_KEY = env.str("COMPLETIONS_API_KEY", "") or None
COMPLETIONS_CONCURRENCY = env.int("COMPLETIONS_CONCURRENCY", 8, validate=ONE_OR_MORE)
# By address, before COMPLETIONS_API_KEY.
COMPLETIONS_API_KEYS: dict[str, str] = (
    dict(env.json("COMPLETIONS_API_KEYS")) if env.str("COMPLETIONS_API_KEYS", "") else {}
)
CHAT_LIMIT_NAME = env.str("CHAT_LIMIT_NAME", "max_completion_tokens")  # "max_tokens" for older servers
SERVED_MOST_REQUESTS = env.int("SERVED_MOST_REQUESTS", 5_000, validate=NOT_NEGATIVE)  # of a run of a chat service
SERVED_MOST_TOKENS = env.int("SERVED_MOST_TOKENS", 10_000_000, validate=NOT_NEGATIVE)  # read and written

# Scorers
SCORERS = _path("PLUMBLINE_SCORERS", VAR / "scorers")
SCORER_MODULES = _list("PLUMBLINE_SCORER_MODULES")
PERSPECTIVE_API_KEY = env.str("PERSPECTIVE_API_KEY", "")
PERSPECTIVE_URL = env.str("PERSPECTIVE_URL", "https://commentanalyzer.googleapis.com")
PERSPECTIVE_REQUESTS_PER_SECOND = env.float("PERSPECTIVE_REQUESTS_PER_SECOND", 1.0, validate=ABOVE_0)
OPENAI_MODERATION_API_KEY = env.str("OPENAI_MODERATION_API_KEY", "")
OPENAI_MODERATION_URL = env.str("OPENAI_MODERATION_URL", "https://api.openai.com")
OPENAI_MODERATION_REQUESTS_PER_SECOND = env.float("OPENAI_MODERATION_REQUESTS_PER_SECOND", 1.0, validate=ABOVE_0)
AZURE_CONTENT_SAFETY_API_KEY = env.str("AZURE_CONTENT_SAFETY_API_KEY", "")
AZURE_CONTENT_SAFETY_URL = env.str("AZURE_CONTENT_SAFETY_URL", "")
AZURE_CONTENT_SAFETY_REQUESTS_PER_SECOND = env.float("AZURE_CONTENT_SAFETY_REQUESTS_PER_SECOND", 1.0, validate=ABOVE_0)
# Of what a contract says; None: pages say that nobody has declared the fee.
AZURE_CONTENT_SAFETY_USD_PER_1000_TEXTS = _number_or_none("AZURE_CONTENT_SAFETY_USD_PER_1000_TEXTS")
JUDGE_API_KEY = env.str("JUDGE_API_KEY", "")
JUDGE_URL = env.str("JUDGE_URL", "")
JUDGE_REQUESTS_PER_SECOND = env.float("JUDGE_REQUESTS_PER_SECOND", 1.0, validate=ABOVE_0)
JUDGE_USD_PER_1000_TEXTS = _number_or_none("JUDGE_USD_PER_1000_TEXTS")
# Addresses by name of the guard, each followed by # and the server's name of the model where that is not the hub's id.
GUARD_SERVERS: dict[str, str] = dict(env.json("GUARD_SERVERS")) if env.str("GUARD_SERVERS", "") else {}

# Requests a minute of one address to all of the site, static files left out; 0: as many as it likes.
REQUESTS_A_MINUTE = env.int("REQUESTS_A_MINUTE", 1200, validate=NOT_NEGATIVE)
# The API: requests a minute of one address, and of the owner of a token, from wherever.
API_REQUESTS_A_MINUTE = env.int("API_REQUESTS_A_MINUTE", 120, validate=ONE_OR_MORE)
API_REQUESTS_A_MINUTE_WITH_TOKEN = env.int("API_REQUESTS_A_MINUTE_WITH_TOKEN", 600, validate=ONE_OR_MORE)

# Accounts: django-allauth's views and forms, our pages. Who may have one is BOARD_ACCESS.
_access = (
    "BOARD_ACCESS = {input!r}: set it to open (anyone may sign up), invited (signing up needs an invitation) or "
    "moderated (anyone may sign up, and submissions wait for a moderator)"
)
BOARD_ACCESS = env.str("BOARD_ACCESS", "open", validate=validate.OneOf(("open", "invited", "moderated"), error=_access))
_site = validate.Regexp("https?://", error=f"SITE_URL = {{input!r}}: {ADDRESS.error}")
ADDRESS_NOTE = VAR / "address"  # where `manage.py up` serves the board: links of other commands lead there too
_address = ADDRESS_NOTE.read_text() if ADDRESS_NOTE.exists() else ""  # or cut short on a full disk
SITE_URL = env.str("SITE_URL", _address or "http://127.0.0.1:8000", validate=_site).rstrip("/")
PROJECT_URL = env.str("PROJECT_URL", "", validate=ADDRESS)  # where the code that runs here is published
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]  # a ModelBackend: permissions too
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# Submissions: how many of one person may be under way, and be sent within a day.
SUBMISSIONS_AT_ONCE = env.int("SUBMISSIONS_AT_ONCE", 5, validate=NOT_NEGATIVE)
SUBMISSIONS_A_DAY = env.int("SUBMISSIONS_A_DAY", 20, validate=NOT_NEGATIVE)
# Files that are sent: how large one may be, and all that one person sends within a day. Strangers' are not kept at all,
# not even until a view refuses them.
UPLOAD_MOST_BYTES = env.int("UPLOAD_MOST_BYTES", 2**29, validate=ONE_OR_MORE)
UPLOAD_MOST_BYTES_A_DAY = env.int("UPLOAD_MOST_BYTES_A_DAY", 2**31, validate=NOT_NEGATIVE)
DATA_UPLOAD_MAX_NUMBER_FILES = 2  # of one request: outputs, and results beside them. Each may fill the disk meanwhile.
FILE_UPLOAD_HANDLERS = [
    "leaderboard.submissions.upload_limit.UploadLimit",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "account"
LOGOUT_REDIRECT_URL = "rankings"
ACCOUNT_ADAPTER = "leaderboard.people.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*"]
ACCOUNT_USERNAME_VALIDATORS = "leaderboard.people.forms.NAME_VALIDATORS"
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_EMAIL_SUBJECT_PREFIX = "Plumbline: "
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_FORMS = {
    "add_email": "leaderboard.people.forms.ChangeEmailForm",
    "change_password": "leaderboard.people.forms.ChangePasswordForm",
    "login": "leaderboard.people.forms.LogInForm",
    "reset_password": "leaderboard.people.forms.ResetPasswordForm",
    "reset_password_from_key": "leaderboard.people.forms.NewPasswordForm",
    "set_password": "leaderboard.people.forms.SetPasswordForm",
    "signup": "leaderboard.people.forms.SignUpForm",
}
ACCOUNT_RATE_LIMITS = {
    "login": "30/m/ip",
    "login_failed": "10/m/ip,5/5m/key",
    "signup": "20/m/ip",
    "reset_password": "20/m/ip,60/h/ip,5/m/key,5/h/key,10/d/key",  # letters to one address
    "confirm_email": "1/3m/key",
}
SOCIALACCOUNT_ADAPTER = "leaderboard.people.adapters.SocialAccountAdapter"
SOCIALACCOUNT_FORMS = {"signup": "leaderboard.people.forms.SocialSignUpForm"}
SOCIALACCOUNT_PROVIDERS: dict[str, dict[str, Any]] = {}
if github := _client("GITHUB"):
    SOCIALACCOUNT_PROVIDERS["github"] = {"APPS": [github], "SCOPE": ["user:email"], "OAUTH_PKCE_ENABLED": True}
if huggingface := _client("HUGGINGFACE"):
    server = {"server_url": "https://huggingface.co", "oauth_pkce_enabled": True}
    SOCIALACCOUNT_PROVIDERS["openid_connect"] = {
        "APPS": [{"provider_id": "huggingface", "name": "Hugging Face", "settings": server, **huggingface}]
    }

# E-mail: written to the terminal, or sent by any URL such as submission://user:password@host:587
_email = env.dj_email_url("EMAIL_URL", "console://")
if "EMAIL_BACKEND" not in _email:
    raise ImproperlyConfigured("EMAIL_URL: set it to console://, or as in submission://user:password@host:587")
EMAIL_BACKEND = _email["EMAIL_BACKEND"].replace(
    "django.core.mail.backends.console.EmailBackend", "leaderboard.terminal_letters.TerminalLetters"
)
EMAIL_HOST = _email["EMAIL_HOST"]
EMAIL_PORT = _email["EMAIL_PORT"]
EMAIL_HOST_USER = _email["EMAIL_HOST_USER"]
EMAIL_HOST_PASSWORD = _email["EMAIL_HOST_PASSWORD"]
EMAIL_USE_TLS = _email["EMAIL_USE_TLS"]
EMAIL_USE_SSL = _email["EMAIL_USE_SSL"]
EMAIL_FILE_PATH = _email["EMAIL_FILE_PATH"]
EMAIL_TIMEOUT = _email["EMAIL_TIMEOUT"] or 10  # seconds: a page waits for it
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", "Plumbline <plumbline@localhost>")

LANGUAGE_CODE = "en-gb"
USE_I18N = False  # pages are in one language: looking it up for each number took a tenth of a page's time
TIME_ZONE = "UTC"
USE_TZ = True

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# What a browser may run and load on a page. A script needs the nonce of its page, no code stands in a page itself, and
# none is made of text. Two exceptions let no script run: style attributes, which Plotly and Django's admin write, and
# the two style elements that Plotly adds, by their hashes: an empty one, which its script fills, and one of its maps.
# A form may lead to the sites that people log in by.
_PLOTLY_STYLES = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
    "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='",
)
_policy: dict[str, Any] = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [NONCE],
        "style-src": [SELF, *_PLOTLY_STYLES],
        "style-src-attr": [UNSAFE_INLINE],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [
            SELF,
            *(["https://github.com"] * bool(github)),
            *(["https://huggingface.co"] * bool(huggingface)),
        ],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
# true: block nothing; the browser's console says what would be blocked, as after a change of the templates.
CSP_REPORT_ONLY = env.bool("CSP_REPORT_ONLY", False)
CONTENT_SECURITY_POLICY = None if CSP_REPORT_ONLY else _policy
CONTENT_SECURITY_POLICY_REPORT_ONLY = _policy if CSP_REPORT_ONLY else None
CSRF_COOKIE_HTTPONLY = True  # forms carry the token; no script reads the cookie
HTTPS_ONLY = env.bool("HTTPS_ONLY", False)
ALLAUTH_TRUSTED_PROXY_COUNT = env.int("TRUSTED_PROXIES", int(HTTPS_ONLY), validate=NOT_NEGATIVE)
if HTTPS_ONLY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = ["^(healthz|readyz|metrics)$"]  # which instruments on this machine ask without a proxy
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 31_536_000

# Log lines: "lines" for people, or "json". What libraries say of requests and tasks only machines want to read.
LOG_FORMAT = env.str("LOG_FORMAT", "lines", validate=validate.OneOf(("lines", "json")))
_level = validate.OneOf(
    ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), error="LOG_LEVEL = {input!r}: set it to one of {choices}"
)
LOG_LEVEL = env.str("LOG_LEVEL", "INFO", validate=lambda level: _level(level.upper())).upper()
DJANGO_STRUCTLOG_CELERY_ENABLED = True
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False
DJANGO_STRUCTLOG_USER_ID_FIELD = None
DJANGO_STRUCTLOG_CELERY_TASK_START_LOG_LEVEL = logging.DEBUG
DJANGO_STRUCTLOG_CELERY_TASK_FAILURE_LOG_LEVEL = logging.ERROR
DJANGO_STRUCTLOG_STATUS_4XX_LOG_LEVEL = logging.INFO
_requests = {"level": LOG_LEVEL if LOG_FORMAT == "json" else "CRITICAL"}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"chosen": {"()": "leaderboard.logs.formatter", "style": LOG_FORMAT}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "chosen"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "leaderboard": {"level": LOG_LEVEL},
        "leaderboard.middleware": _requests,
        "django_structlog": _requests,
        "django.request": {"level": "CRITICAL" if LOG_FORMAT == "json" else "WARNING"},  # told by the two above
        "celery.beat": {"level": "WARNING"},
        "django.server": {"handlers": [], "level": "INFO", "propagate": True},
    },
}
# By this kept pages are told from those of other settings. The name of the host is none of it: hosts of a board that
# share a store send the pages of each other.
_values = {name: value for name, value in env.dump().items() if name != "PLUMBLINE_HOST"}
DIGEST = hashlib.sha256(json.dumps(_values, sort_keys=True, default=str).encode()).hexdigest()
if SENTRY_DSN:
    from leaderboard.sentry import begin

    begin(SENTRY_DSN)
