"""Backups that were made, and the mark by which a database and a storage know that they belong together."""

from django.db import models


class Backup(models.Model):
    """A set of database and files that was written, or is; or the reason why it could not be."""

    name = models.CharField(max_length=40, unique=True, help_text="Of the set: when it was begun.")
    target = models.CharField(max_length=300, help_text="Where it lies, without keys.")
    encryption = models.CharField(max_length=10, blank=True, help_text="Empty: it is not encrypted.")
    begun_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True, db_index=True)
    files = models.PositiveBigIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes of the database and the files.")
    copied = models.PositiveBigIntegerField(default=0, help_text="Bytes that the target did not have yet.")
    problem = models.TextField(blank=True, help_text="Why it was not finished.")
    verified_at = models.DateTimeField(null=True, blank=True, help_text="When it was last restored on trial.")

    class Meta:
        ordering = ("-begun_at", "-pk")

    def __str__(self) -> str:
        return self.name


class StorageMark(models.Model):
    """The mark that this database last left on its storage; one row. A storage with another mark is of another time."""

    number = models.PositiveBigIntegerField(help_text="One more each time.")
    newest = models.CharField(max_length=64, blank=True, help_text="The sha256 of the newest artefact at that time.")
    marked_at = models.DateTimeField()

    class Meta:
        ordering = ("-number",)

    def __str__(self) -> str:
        return str(self.number)
