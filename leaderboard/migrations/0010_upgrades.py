from django.db import migrations, models

import leaderboard.models.control


class Migration(migrations.Migration):

    dependencies = [
        ('leaderboard', '0009_names'),
    ]

    operations = [
        migrations.AddField(
            model_name='controlset',
            name='check_version',
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AlterField(
            model_name='controlset',
            name='check_version',
            field=models.PositiveIntegerField(default=leaderboard.models.control.current_check_version, help_text='Of the rule of control checks that it was measured for.'),
        ),
        migrations.AddField(
            model_name='rescoring',
            name='by_upgrade',
            field=models.BooleanField(default=False, help_text='The board opened it by itself: the code computes or checks otherwise than the version before.'),
        ),
        migrations.AddField(
            model_name='run',
            name='self_test',
            field=models.JSONField(blank=True, default=dict, help_text="How far the engine was from the model's plain forward; and where."),
        ),
    ]
