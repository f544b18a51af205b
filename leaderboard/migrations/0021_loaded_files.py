from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("leaderboard", "0009_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="loaded_files",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="Files that the model was loaded from: name, size and sha256 of each.",
            ),
        ),
    ]
