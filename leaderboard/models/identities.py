"""The models that entries are evidence about."""

from django.db import models
from django.db.models import Q
from django.urls import reverse

from leaderboard.models.clock import birth_field


class ModelIdentity(models.Model):
    """A model as its makers know it. What papers, HELM and this board have of it are entries of it.

    Entries are rows of LanguageModel: the figures of a source, or a revision that is measured here.
    """

    slug = models.SlugField(max_length=120, unique=True)
    name = models.CharField(max_length=200, help_text="As pages call it.")
    organisation = models.CharField(max_length=120, blank=True, help_text="Who made it.")
    family = models.CharField(max_length=80, blank=True)
    parameters = models.BigIntegerField(null=True, blank=True, help_text="As its makers state them.")
    licence = models.CharField(max_length=120, blank=True)
    hub_id = models.CharField(max_length=200, blank=True, help_text="Where its weights are on the hub.")
    aliases = models.JSONField(default=list, blank=True, help_text="What else it is called, as a list of names.")
    created_at = birth_field()

    class Meta:
        ordering = ("name", "pk")
        verbose_name_plural = "model identities"
        constraints = (
            models.UniqueConstraint(fields=["hub_id"], condition=~Q(hub_id=""), name="modelidentity_one_a_hub_id"),
        )

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("model", args=[self.slug])
