from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('leaderboard', '0039_one_clock'),
    ]

    operations = [
        migrations.AddField(
            model_name='worker',
            name='rates',
            field=models.JSONField(blank=True, help_text='Of matrix products in each precision, in GFLOP/s; empty: not measured yet.', null=True),
        ),
    ]
