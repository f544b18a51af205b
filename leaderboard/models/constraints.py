"""Constraints that several models share."""

from django.db import models
from django.db.models import Q


def one_of(field: str, choices: type[models.TextChoices]) -> models.CheckConstraint:
    """The database, not only the form, refuses a value that is not among `choices`."""
    return models.CheckConstraint(condition=Q(**{f"{field}__in": choices.values}), name=f"%(class)s_{field}_known")


def sha256_shape(field: str) -> models.CheckConstraint:
    """64 lower-case hexadecimal digits."""
    return models.CheckConstraint(condition=Q(**{f"{field}__regex": r"^[0-9a-f]{64}$"}), name=f"%(class)s_{field}_hex")
