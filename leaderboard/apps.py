from typing import Any

from allauth.account.signals import password_reset
from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin.apps import AdminConfig
from django.contrib.staticfiles.apps import StaticFilesConfig
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate

from leaderboard.sqlite import keep_open
from scoring.refusals import Refused


class LeaderboardConfig(AppConfig):
    """Plumbline's only application."""

    name = "leaderboard"

    def ready(self) -> None:
        # Importing registers them.
        from leaderboard import checks  # noqa: F401
        from leaderboard.operations import admin  # noqa: F401

        connection_created.connect(keep_open)
        password_reset.connect(_revoke_tokens)
        post_migrate.connect(_seed_roles, sender=self)
        post_migrate.connect(_note_release, sender=self)
        if settings.SCORER_MODULES:
            _load_scorers()
        if settings.GUARD_SERVERS:
            _check_guard_servers()


def _revoke_tokens(user: Any, **_: Any) -> None:
    """The tokens of a person who resets their password by a link do not outlive it."""
    from leaderboard.people.services.tokens import revoke_all_tokens

    revoke_all_tokens(user)


def _seed_roles(**_: Any) -> None:
    """The groups of `services.roles`, once the permissions they have are there, and the folder of scorers."""
    from leaderboard.people.services.roles import seed_roles

    seed_roles()
    settings.SCORERS.mkdir(parents=True, exist_ok=True)  # which a backup names, with or without files


def _note_release(**_: Any) -> None:
    """The code that migrated the database is the board's from now on."""
    from leaderboard.services.release import note_release

    note_release()


def _load_scorers() -> None:
    """The board's own scorers. The import is slow, and most commands of a board without any do without it."""
    from scoring.scorers import load_scorers

    try:
        load_scorers(settings.SCORER_MODULES)
    except Refused as error:
        raise ImproperlyConfigured(f"PLUMBLINE_SCORER_MODULES: {error}") from error


def _check_guard_servers() -> None:
    """Every guard that is said to be served is one, and has an address."""
    from leaderboard.services.scorers import guard_servers

    try:
        guard_servers()
    except Refused as error:
        raise ImproperlyConfigured(str(error)) from error


class Admin(AdminConfig):
    """Django's admin, entered by the site's own log-in."""

    default_site = "leaderboard.operations.admin_site.BoardAdmin"


class StaticFiles(StaticFilesConfig):
    """Static files; not what lies beside Plotly's script, and not the admin's words in other languages."""

    ignore_patterns = [*StaticFilesConfig.ignore_patterns, "widgetbundle.js", "datasets", "templates", "i18n"]
