"""The tables in Django's admin. What is immutable, or changes by rules, is read there and never written.

Staff look; superusers change what is only descriptive, and who may do what. Every change lands in the audit trail with
what was before and after. No secret and no hash of one is shown.
"""

from typing import Any, ClassVar

import allauth.account.admin
import allauth.socialaccount.admin  # noqa: F401 (they register their tables, which is undone below)
from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import models, transaction
from django.http import HttpRequest

from leaderboard import models as board
from leaderboard.card.form import FIELDS, Card, as_json
from leaderboard.models import AuditVerb
from leaderboard.people.permissions import require_user
from leaderboard.people.services.roles import ROLES, role_of, set_role
from leaderboard.services.audit import record


class ReadOnly(admin.ModelAdmin):
    """A table that staff read, column by column, and nobody writes. `secret`: hidden columns."""

    secret: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    list_per_page = 50
    show_full_result_count = False
    actions = None
    save_on_top = False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_staff)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_staff)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return self.secret

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Return all columns, those that no form can have among them, such as the time when a row was added."""
        return [field.name for field in self.opts.fields if field.name not in (*self.editable, *self.secret)]


class AuditedAdmin(ReadOnly):
    """A table of which superusers may change the columns in `editable`. Every change is recorded."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        """Save the row, and record its changes in the audit trail."""
        with transaction.atomic():
            old_row = type(obj)._default_manager.select_for_update(of=("self",), no_key=True).get(pk=obj.pk)
            names = [name for name in self.editable if getattr(obj, name) != getattr(old_row, name)]
            old_values, new_values = (as_json({name: getattr(row, name) for name in names}) for row in (old_row, obj))
            if names:
                obj.save(update_fields=names)
                record(AuditVerb.CHANGE_IN_ADMIN, subject_of(obj), {}, require_user(request), (old_values, new_values))


def subject_of(obj: models.Model) -> str:
    """Return the subject of an event about this row, spelled as other events spell it."""
    name = obj.get_username() if isinstance(obj, User) else getattr(obj, "slug", None) or str(obj.pk)
    kind = "model" if isinstance(obj, board.LanguageModel) else str(obj._meta.verbose_name)
    return f"{kind} {name}"[:200]


class CardForm(Card, forms.ModelForm):
    """The card of an entered model."""

    class Meta:
        model = board.LanguageModel
        fields = FIELDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configured = self.instance.configuration


@admin.register(board.LanguageModel)
class LanguageModelAdmin(AuditedAdmin):
    form = CardForm
    editable = FIELDS
    list_display = ("name", "slug", "family", "kind", "source", "access", "created_at")
    list_filter = ("kind", "source", "access", "family")
    search_fields = ("name", "slug", "family", "location", "revision")
    date_hierarchy = "created_at"


@admin.register(board.ModelIdentity)
class ModelIdentityAdmin(AuditedAdmin):
    editable = ("name", "organisation", "family", "parameters", "licence", "hub_id", "aliases")
    list_display = ("name", "slug", "organisation", "family", "parameters", "hub_id")
    list_filter = ("organisation", "family")
    search_fields = ("name", "slug", "organisation", "family", "hub_id")


@admin.register(board.Metric)
class MetricAdmin(AuditedAdmin):
    editable = ("title", "summary", "position")
    list_display = ("slug", "title", "scorer", "formula_name", "measure", "position")
    list_filter = ("formula_name", "scorer", "outdated_policy")
    list_select_related = ("protocol__evaluation_set",)
    search_fields = ("slug", "title", "scorer")


@admin.register(board.EvaluationSet)
class EvaluationSetAdmin(AuditedAdmin):
    editable = ("title", "licence", "citation", "notice")
    list_display = ("slug", "version", "title", "kind", "licence", "created_at")
    list_filter = ("kind", "licence")
    search_fields = ("slug", "title", "licence")


class RoleForm(forms.ModelForm):
    """A user, with the role in place of the groups."""

    role = forms.ChoiceField(
        choices=[("", "None"), *((role.name, f"{role.name}: {role.may}") for role in ROLES)],
        required=False,
        help_text="What somebody may do here.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        role = role_of(self.instance)
        if "role" in self.fields:
            self.fields["role"].initial = role.name if role else ""

    def clean_role(self) -> str:
        role: str = self.cleaned_data["role"]
        if not role and self.fields["role"].initial:
            raise forms.ValidationError("A role cannot be taken away: make the user a viewer, or not active.")
        return role


# Each has a page of its own, with checks that these tables of Django and allauth do not make.
for table in (User, Group, EmailAddress, EmailConfirmation, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(table):
        admin.site.unregister(table)


@admin.register(User)
class UserAdmin(AuditedAdmin):
    """Users and their roles. People sign up and set their passwords elsewhere."""

    form = RoleForm
    secret = ("password",)
    editable = ("is_active", "is_staff", "is_superuser")
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("groups", "is_active", "is_staff", "is_superuser")
    search_fields = ("username", "email")
    fields = ("username", "email", "is_active", "is_staff", "is_superuser", "role", "date_joined", "last_login")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody locks themselves out."""
        return super().has_change_permission(request, obj) and obj != request.user

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        may_change = self.has_change_permission(request, obj)
        return tuple(name for name in self.fields if may_change or name != "role")

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "role" in form.changed_data:
            set_role(obj, form.cleaned_data["role"], require_user(request))


@admin.register(board.MetricVersion)
class MetricVersionAdmin(ReadOnly):
    list_display = ("metric", "number", "provenance", "scorer", "status", "published_at")
    list_filter = ("status", "provenance", "metric")
    list_select_related = ("metric",)
    search_fields = ("metric__slug", "scorer", "scorer_fingerprint")


@admin.register(board.Standing)
class StandingAdmin(ReadOnly):
    list_display = ("metric_version", "measure", "slice", "population", "rank", "model", "value")
    list_filter = ("measure", "population", "metric_version__metric")
    list_select_related = ("metric_version__metric", "model")
    search_fields = ("model__slug", "model__name", "slice")


@admin.register(board.Result)
class ResultAdmin(ReadOnly):
    list_display = ("scoring", "measure", "slice", "value", "ci_low", "ci_high", "n", "missing")
    list_filter = ("measure",)
    list_select_related = ("scoring__model", "scoring__metric_version__metric")
    search_fields = ("scoring__model__slug", "slice")


class WorkAdmin(ReadOnly):
    """A kind of work, as its declaration says; kinds with more to show add that."""

    list_display: tuple[str, ...] = ("pk", "__str__", "state", "attempts", "done", "total", "finished_at")
    list_filter: ClassVar[tuple[str, ...]] = ("state", "held")
    search_fields: ClassVar[tuple[str, ...]] = ("reason",)

    def __init__(self, model: type[board.Work], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        self._related = model.kind.related

    def get_list_select_related(self, request: HttpRequest) -> tuple[str, ...]:
        return self._related


@admin.register(board.Run)
class RunAdmin(WorkAdmin):
    list_display = ("pk", "model", "protocol", "epoch", "state", "done", "total", "finished_at")
    list_filter = ("state", "held", "protocol__evaluation_set")
    search_fields = ("model__slug", "model__name", "reason")


@admin.register(board.Scoring)
class ScoringAdmin(WorkAdmin):
    list_display = ("pk", "model", "metric_version", "state", "done", "total", "scored_at")
    list_filter = ("state", "held", "metric_version__metric")
    search_fields = ("model__slug", "model__name", "reason")


@admin.register(board.ControlCheck)
class ControlCheckAdmin(WorkAdmin):
    list_display = ("pk", "metric", "trigger", "state", "verdict", "finished_at")
    list_filter = ("verdict", "state", "trigger", "metric")
    search_fields = ("metric__slug", "fingerprint", "reason")
    date_hierarchy = "created_at"


admin.site.register([table for table in board.WORK_TABLES if not admin.site.is_registered(table)], WorkAdmin)


@admin.register(board.Service)
class ServiceAdmin(ReadOnly):
    list_display = ("model", "asked_at", "successor", "change")
    list_select_related = ("model", "successor")
    search_fields = ("model__slug", "model__name", "change")


@admin.register(board.ControlSet)
class ControlSetAdmin(ReadOnly):
    list_display = ("metric_version", "noise", "fingerprint", "created_at")
    list_select_related = ("metric_version__metric",)
    search_fields = ("metric_version__metric__slug", "fingerprint")


@admin.register(board.Opening)
class OpeningAdmin(ReadOnly):
    list_display = ("metric_version", "wanted", "refusals", "reason", "not_before", "created_at")
    list_select_related = ("metric_version__metric",)
    search_fields = ("metric_version__metric__slug", "fingerprint", "reason")


@admin.register(board.Replicate)
class ReplicateAdmin(ReadOnly):
    list_display = ("opening", "number", "artefact", "scored_at")
    list_select_related = ("opening__metric_version__metric", "artefact")
    search_fields = ("opening__metric_version__metric__slug", "artefact__sha256")


@admin.register(board.Rescoring)
class RescoringAdmin(ReadOnly):
    list_display = ("metric", "from_version", "to_version", "state", "done", "total", "requested_by", "created_at")
    list_filter = ("state", "metric")
    list_select_related = ("metric", "from_version__metric", "to_version__metric", "requested_by")
    search_fields = ("metric__slug", "reason")


@admin.register(board.OutdatedEntry)
class OutdatedEntryAdmin(ReadOnly):
    list_display = ("model", "metric_version", "reason")
    list_filter = ("metric_version__metric",)
    list_select_related = ("model", "metric_version__metric")
    search_fields = ("model__slug", "model__name", "reason")


@admin.register(board.Artefact)
class ArtefactAdmin(ReadOnly):
    list_display = ("sha256", "kind", "rows", "size", "state", "checked_at", "created_at")
    list_filter = ("kind", "state", "schema_version")
    search_fields = ("sha256",)
    date_hierarchy = "created_at"


@admin.register(board.Protocol)
class ProtocolAdmin(ReadOnly):
    list_display = ("evaluation_set", "method", "sha256")
    list_filter = ("method",)
    list_select_related = ("evaluation_set",)
    search_fields = ("evaluation_set__slug", "method", "sha256")


@admin.register(board.RetiredScorer)
class RetiredScorerAdmin(ReadOnly):
    list_display = ("name", "reason", "retired_at")
    search_fields = ("name", "reason")


@admin.register(board.ScorerProbe)
class ScorerProbeAdmin(ReadOnly):
    list_display = ("name", "problem", "worker", "probed_at")
    search_fields = ("name", "problem")


@admin.register(board.SearchPage)
class SearchPageAdmin(ReadOnly):
    list_display = ("title", "kind", "address")
    list_filter = ("kind",)
    search_fields = ("title", "text")


@admin.register(board.SearchState)
class SearchStateAdmin(ReadOnly):
    list_display = ("stamp",)
    search_fields = ("stamp",)


@admin.register(board.Submission)
class SubmissionAdmin(ReadOnly):
    secret = ("upload",)
    list_display = ("pk", "submitter", "form", "state", "created_at")
    list_filter = ("state", "form")
    list_select_related = ("submitter",)
    search_fields = ("submitter__username",)
    date_hierarchy = "created_at"


@admin.register(board.SubmissionLine)
class SubmissionLineAdmin(ReadOnly):
    list_display = ("submission", "at", "text")
    list_select_related = ("submission__submitter",)
    search_fields = ("text", "submission__submitter__username")


@admin.register(board.Preferences)
class PreferencesAdmin(ReadOnly):
    list_display = ("user", "letters")
    list_select_related = ("user",)
    search_fields = ("user__username",)


@admin.register(board.Invitation)
class InvitationAdmin(ReadOnly):
    secret = ("token_hash",)
    list_display = ("pk", "email", "invited_by", "used_by", "created_at", "expires_at", "revoked_at")
    list_select_related = ("invited_by", "used_by")
    search_fields = ("email", "used_by__username")


@admin.register(board.ApiToken)
class ApiTokenAdmin(ReadOnly):
    secret = ("token_hash",)
    list_display = ("name", "owner", "last_four", "created_at", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("owner",)
    search_fields = ("name", "owner__username")


@admin.register(board.AuditEvent)
class AuditEventAdmin(ReadOnly):
    list_display = ("at", "actor", "verb", "subject")
    list_filter = ("verb",)
    list_select_related = ("actor",)
    search_fields = ("verb", "subject", "actor__username")
    date_hierarchy = "at"


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnly):
    list_display = ("action_time", "user", "content_type", "object_repr", "action_flag")
    list_select_related = ("user", "content_type")
    search_fields = ("object_repr", "user__username")


@admin.register(Group)
class GroupAdmin(ReadOnly):
    search_fields = ("name",)


@admin.register(Permission)
class PermissionAdmin(ReadOnly):
    list_display = ("name", "content_type", "codename")
    list_select_related = ("content_type",)
    search_fields = ("name", "codename")


@admin.register(board.EntryCheck)
class EntryCheckAdmin(ReadOnly):
    list_display = ("scoring", "state", "decided_by", "decided_at")
    list_filter = ("state",)
    list_select_related = ("scoring__model", "scoring__metric_version__metric", "decided_by")
    search_fields = ("scoring__model__name", "reason")


@admin.register(board.Worker)
class WorkerAdmin(ReadOnly):
    list_display = ("name", "host", "code", "queues", "started_at", "beat_at")
    search_fields = ("name",)


@admin.register(board.Pulse)
class PulseAdmin(ReadOnly):
    list_display = ("name", "at")
    search_fields = ("name",)


@admin.register(board.Release)
class ReleaseAdmin(ReadOnly):
    list_display = ("code", "installed_at")
    search_fields = ("code",)


@admin.register(board.Backup)
class BackupAdmin(ReadOnly):
    list_display = ("name", "target", "begun_at", "finished_at", "files", "size", "verified_at")
    search_fields = ("name", "target", "problem")


@admin.register(board.StorageMark)
class StorageMarkAdmin(ReadOnly):
    list_display = ("number", "marked_at")
    search_fields = ("newest",)


@admin.register(board.StoredFolder)
class StoredFolderAdmin(ReadOnly):
    list_display = ("name", "sha256", "imported_at")
    search_fields = ("name",)


@admin.register(board.FolderFile)
class FolderFileAdmin(ReadOnly):
    list_display = ("folder", "path", "artefact")
    list_select_related = ("folder", "artefact")
    search_fields = ("folder__name", "path")


@admin.register(board.Incident)
class IncidentAdmin(ReadOnly):
    list_display = ("kind", "subject", "opened_at", "resolved_at")
    list_filter = ("kind",)
    search_fields = ("subject", "summary")


@admin.register(board.OutboxMessage)
class OutboxMessageAdmin(ReadOnly):
    """Without what it says: that may be a link which lets one in."""

    list_display = ("kind", "event", "incident", "submission", "subject", "attempts", "not_before", "sent_at")
    list_filter = ("kind", "event")
    list_select_related = ("incident", "submission__submitter")
    search_fields = ("subject", "recipient", "incident__subject", "submission__submitter__username")
    secret = ("body",)


@admin.register(board.CacheEntry)
class CacheEntryAdmin(ReadOnly):
    list_display = ("key", "expires_at")
    search_fields = ("key",)


@admin.register(ContentType)
class ContentTypeAdmin(ReadOnly):
    list_display = ("app_label", "model")
    search_fields = ("app_label", "model")


@admin.register(EmailAddress)
class EmailAddressAdmin(AuditedAdmin):
    """E-mail addresses: a superuser may confirm one that gets no mail."""

    editable = ("verified",)
    list_display = ("email", "user", "primary", "verified")
    list_filter = ("verified", "primary")
    list_select_related = ("user",)
    search_fields = ("email", "user__username")


@admin.register(EmailConfirmation)
class EmailConfirmationAdmin(ReadOnly):
    secret = ("key",)
    list_display = ("email_address", "created", "sent")
    search_fields = ("email_address__email",)


@admin.register(SocialAccount)
class SocialAccountAdmin(ReadOnly):
    list_display = ("user", "provider", "uid", "date_joined", "last_login")
    list_filter = ("provider",)
    list_select_related = ("user",)
    search_fields = ("user__username", "uid")


@admin.register(SocialApp)
class SocialAppAdmin(ReadOnly):
    secret = ("secret", "key")
    list_display = ("name", "provider", "client_id")
    search_fields = ("name", "provider")


@admin.register(SocialToken)
class SocialTokenAdmin(ReadOnly):
    secret = ("token", "token_secret")
    list_display = ("account", "app", "expires_at")
    list_select_related = ("account__user", "app")
    search_fields = ("account__user__username",)
