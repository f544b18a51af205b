"""Four roles, each a group of Django that has all permissions of the one before it, and more."""

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import transaction

from leaderboard.models import AuditVerb
from leaderboard.services.audit import record
from scoring.refusals import Refused

OPERATE = "leaderboard.operate_metric"
MODERATE = "leaderboard.moderate_submission"
SUBMIT = "leaderboard.add_submission"
MAKE_TOKENS = "leaderboard.add_apitoken"


@dataclass(frozen=True)
class Role:
    """A group of the same name. may: what its members may do, in words; permissions: all that they have."""

    name: str
    may: str
    permissions: tuple[str, ...]


ROLES = (
    Role("viewer", "read everything, by program too", (MAKE_TOKENS,)),
    Role("submitter", "submit models", (MAKE_TOKENS, SUBMIT)),
    Role("moderator", "submit models, and accept or refuse submissions", (MAKE_TOKENS, SUBMIT, MODERATE)),
    Role("operator", "run the board", (MAKE_TOKENS, SUBMIT, MODERATE, OPERATE)),
)
NEWCOMER = "submitter"
BY_NAME = {role.name: role for role in ROLES}


def seed_roles() -> None:
    """Create or correct the groups as declared here. Idempotent."""
    permissions_by_name = {
        f"{permission.content_type.app_label}.{permission.codename}": permission
        for permission in Permission.objects.filter(content_type__app_label="leaderboard").select_related(
            "content_type"
        )
    }
    for role in ROLES:
        group, _ = Group.objects.get_or_create(name=role.name)
        group.permissions.set([permissions_by_name[name] for name in role.permissions])


def role_of(user: User) -> Role | None:
    """Return the role of a user; None if they have none."""
    names = set(user.groups.values_list("name", flat=True))
    return next((role for role in reversed(ROLES) if role.name in names), None)


@transaction.atomic
def set_role(user: User, name: str, actor: User | None = None) -> Role:
    """Replace the role of a user, and record it. Raises Refused."""
    if name not in BY_NAME:
        raise Refused.of_value("role", name, f"use one of {', '.join(BY_NAME)}")
    old_role = role_of(user)
    user.groups.remove(*Group.objects.filter(name__in=BY_NAME))
    user.groups.add(Group.objects.get(name=name))
    old_name = old_role.name if old_role else None
    change = {"role": old_name}, {"role": name}
    record(AuditVerb.SET_ROLE, f"user {user.get_username()}", {}, actor, change)
    return BY_NAME[name]


def operates(user: User | AnonymousUser) -> bool:
    """Whether the user is an operator: by role, or as staff from `createsuperuser`."""
    return user.is_active and (user.is_staff or user.has_perm(OPERATE))


def moderates(user: User | AnonymousUser) -> bool:
    """Whether the user decides about submissions: moderators and operators do."""
    return operates(user) or (user.is_active and user.has_perm(MODERATE))
