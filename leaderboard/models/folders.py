"""Folders that every host of a board needs, as stored files: lexicons, checkpoints of scorers, models of operators."""

from django.db import models

from leaderboard.models.constraints import sha256_shape
from leaderboard.models.evaluation import Artefact


class StoredFolder(models.Model):
    """A folder, or a single file, as its newest import left it; each host fetches it from the storage."""

    name = models.CharField(max_length=300, unique=True, help_text="As in `scorer lexicon:own` or `model my-model`.")
    sha256 = models.CharField(max_length=64, help_text="Of the names and hashes of its files.")
    single = models.BooleanField(default=False, help_text="It is one file, as a GGUF is.")
    imported_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)
        constraints = (sha256_shape("sha256"),)

    def __str__(self) -> str:
        return self.name


class FolderFile(models.Model):
    """A file of a stored folder."""

    folder = models.ForeignKey(StoredFolder, models.CASCADE, related_name="files")
    path = models.CharField(max_length=500, help_text="Within the folder.")
    artefact = models.ForeignKey(Artefact, models.PROTECT, related_name="+")

    class Meta:
        ordering = ("path",)
        constraints = (models.UniqueConstraint(fields=["folder", "path"], name="folderfile_one_a_path"),)

    def __str__(self) -> str:
        return f"{self.folder}: {self.path}"
