"""What people may do here: four roles, each a group of Django's with all that the one before it has, and more."""

from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import transaction

from leaderboard.services.audit import record

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


class UnknownRole(ValueError):
    """There is no role of that name."""


def seed_roles() -> None:
    """Make the groups be what is declared here. Idempotent."""
    known = {
        f"{permission.content_type.app_label}.{permission.codename}": permission
        for permission in Permission.objects.filter(content_type__app_label="leaderboard").select_related(
            "content_type"
        )
    }
    for role in ROLES:
        group, _ = Group.objects.get_or_create(name=role.name)
        group.permissions.set([known[name] for name in role.permissions])


def role_of(user: User) -> Role | None:
    """The role somebody has; None where nobody gave them one."""
    names = set(user.groups.values_list("name", flat=True))
    return next((role for role in reversed(ROLES) if role.name in names), None)


@transaction.atomic
def set_role(user: User, name: str, actor: User | None = None) -> Role:
    """Give somebody a role in place of the one they have, for the record. Raises UnknownRole."""
    if name not in BY_NAME:
        raise UnknownRole(f"role = {name!r}: use one of {', '.join(BY_NAME)}")
    before = role_of(user)
    user.groups.remove(*Group.objects.filter(name__in=BY_NAME))
    user.groups.add(Group.objects.get(name=name))
    was = before.name if before else None
    change = {"role": was}, {"role": name}
    record("set role", f"user {user.get_username()}", {}, actor, change)
    return BY_NAME[name]


def operates(user: User | AnonymousUser) -> bool:
    """Whether somebody runs the board: staff, as `createsuperuser` makes them, and whoever has the role."""
    return user.is_active and (user.is_staff or user.has_perm(OPERATE))


def moderates(user: User | AnonymousUser) -> bool:
    """Whether somebody decides upon submissions: moderators, and those who run the board."""
    return operates(user) or (user.is_active and user.has_perm(MODERATE))
