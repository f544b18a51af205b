"""States of stored files, and the mark on the storage that a board has from its beginning."""

import logging

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import migrations, models

log = logging.getLogger(__name__)

SENTINEL = "plumbline-storage"
SENTINEL_TEXT = b"The files of a Plumbline board. Without this one the board takes the storage for not mounted.\n"


def mark(apps, schema_editor):
    """Mark the storage where the board is new, or its files are there; note which of an imported board are not."""
    artefacts = apps.get_model("leaderboard", "Artefact").objects
    imported = apps.get_model("leaderboard", "AuditEvent").objects.filter(verb="import board").first()
    names = {pk: f"{sha256[:2]}/{sha256}.parquet" for pk, sha256 in artefacts.values_list("pk", "sha256")}
    here = {pk for pk, name in names.items() if default_storage.exists(name)} if names else set()
    if names and not here and not imported:
        log.warning(
            "None of %d files of this board is on its storage: is it mounted? Mount it, and run `manage.py "
            "mark_storage`; until then nothing is read from it or written to it.",
            len(names),
        )
        return
    if not default_storage.exists(SENTINEL):
        default_storage.save(SENTINEL, ContentFile(SENTINEL_TEXT))
    if imported:
        left = artefacts.filter(created_at__lt=imported.at).exclude(pk__in=here)
        left.update(state="absent")


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0016_work_that_ends"),
    ]

    operations = [
        migrations.AddField(
            model_name="artefact",
            name="checked_at",
            field=models.DateTimeField(blank=True, help_text="When its bytes were last read and hashed.", null=True),
        ),
        migrations.AddField(
            model_name="artefact",
            name="state",
            field=models.CharField(
                choices=[
                    ("whole", "Whole"),
                    ("damaged", "Damaged"),
                    ("missing", "Missing"),
                    ("absent", "Not kept here"),
                ],
                default="whole",
                help_text="As last seen.",
                max_length=20,
            ),
        ),
        migrations.AddIndex(
            model_name="artefact",
            index=models.Index(
                condition=models.Q(("state", "whole"), _negated=True), fields=["state"], name="artefact_not_whole"
            ),
        ),
        migrations.AddIndex(
            model_name="artefact",
            index=models.Index(fields=["checked_at"], name="artefact_checked"),
        ),
        migrations.AddConstraint(
            model_name="artefact",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["whole", "damaged", "missing", "absent"])),
                name="artefact_state_known",
            ),
        ),
        migrations.RunPython(mark, migrations.RunPython.noop, elidable=True),
    ]
