import django.utils.timezone
from django.core.management import call_command
from django.db import migrations, models


def drop_attempts(apps, schema_editor):
    schema_editor.execute("DROP TABLE IF EXISTS leaderboard_attempts")


def make_attempts(apps, schema_editor):
    call_command("createcachetable", "leaderboard_attempts", database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    """Counts of attempts move to a table of JSON, as the old one held pickles; letters about accounts get a queue.

    Submissions say why a moderator looks at them, and which name of a ranked model waits for one.
    """

    dependencies = [
        ("leaderboard", "0013_noise"),
    ]

    operations = [
        migrations.RunPython(drop_attempts, make_attempts),
        migrations.CreateModel(
            name="CacheEntry",
            fields=[
                ("key", models.CharField(max_length=250, primary_key=True, serialize=False)),
                ("value", models.TextField()),
                (
                    "expires_at",
                    models.DateTimeField(
                        blank=True, db_index=True, help_text="Empty: it never expires.", null=True
                    ),
                ),
            ],
            options={"verbose_name_plural": "cache entries"},
        ),
        migrations.CreateModel(
            name="OutgoingLetter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("recipient", models.EmailField(max_length=254)),
                ("subject", models.CharField(blank=True, max_length=300)),
                ("body", models.TextField(blank=True)),
                ("resets_password", models.BooleanField(default=False, help_text="It is written as it is sent.")),
                ("attempts", models.PositiveIntegerField(default=0)),
                (
                    "not_before",
                    models.DateTimeField(
                        db_index=True,
                        default=django.utils.timezone.now,
                        help_text="When it may be tried; soon after: in work.",
                    ),
                ),
            ],
            options={
                "ordering": ("pk",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("resets_password", True), models.Q(("body", ""), _negated=True), _connector="XOR"
                        ),
                        name="outgoingletter_is_written",
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="submission",
            name="concerns",
            field=models.JSONField(
                blank=True, default=list, help_text="Why a moderator looks at it on any board."
            ),
        ),
        migrations.AddField(
            model_name="submission",
            name="name_asked",
            field=models.CharField(
                blank=True, help_text="What its ranked model is to be called, once a moderator agrees.", max_length=200
            ),
        ),
    ]
