"""The index of the search: every page that it leads to, with the words that find it.

It is made of the other tables and of declarations, and made again when these change: nobody writes it by hand.
"""

from django.db import models


class SearchPage(models.Model):
    """A page that a search can lead to."""

    kind = models.CharField(max_length=20)
    title = models.CharField(max_length=300)
    note = models.TextField(blank=True)
    address = models.CharField(max_length=600)
    words = models.TextField(blank=True, help_text="What else it is found by.")
    names = models.JSONField(default=list, help_text="What it is called beside its title.")
    keys = models.TextField(help_text="Title and names in plain words, each between bars.")
    text = models.TextField(help_text="All of its words in plain letters: what full text search reads.")
    grams = models.TextField(help_text="Three letters in a row of its title and names: what finds misspelt words.")

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(fields=["kind", "address", "title"], name="searchpage_once"),
            models.CheckConstraint(condition=~models.Q(text=""), name="searchpage_has_words"),
        )

    def __str__(self) -> str:
        return self.title


class SearchState(models.Model):
    """What the index was made of: one row."""

    stamp = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.stamp
