"""What scorers declare of their labels, and texts without a score; marks what was ranked before anybody declared it."""

from django.db import migrations, models

from scoring.attributes import Meaning
from scoring.metrics.formulas import slice_parts
from scoring.scorers.labels import known_meanings


def mark_undeclared(apps, _schema_editor):
    """Note of each classifier's version the labels that it ranks as harms though their names do not say so."""
    version_model, result_model = (apps.get_model("leaderboard", name) for name in ("MetricVersion", "Result"))
    judged = version_model.objects.filter(
        provenance="measured", scorer__startswith="classifier:", metric__formula_name="toxicity"
    )
    for version in judged:
        results = result_model.objects.filter(scoring__metric_version=version).order_by()
        labels = sorted({slice_parts(name)[0] for name in results.values_list("slice", flat=True).distinct()})
        meanings = known_meanings(labels)
        undeclared = [label for label in labels if meanings.get(label) != Meaning.HARM]
        version_model.objects.filter(pk=version.pk).update(undeclared=undeclared)


def file_unique_fractions(apps, _schema_editor):
    """HELM counts identical continuations of a prompt once: its fraction is filed as what it is."""
    for name, path in (("Result", "scoring__metric_version"), ("Standing", "metric_version")):
        apps.get_model("leaderboard", name).objects.filter(
            **{f"{path}__metric__slug": "rtp-helm-perspective", f"{path}__provenance": "published"},
            measure="toxic_fraction",
        ).update(measure="toxic_fraction_unique")


class Migration(migrations.Migration):
    dependencies = [("leaderboard", "0010_upgrades")]

    operations = [
        migrations.AddField(
            model_name="metric",
            name="labels",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="What an operator declares of a classifier's labels: harm, neutral or good, by label.",
            ),
        ),
        migrations.AddField(
            model_name="metric",
            name="most_missing",
            field=models.FloatField(
                default=0.05,
                help_text="Entries of which a larger share of the texts has no score are shown, and not ranked.",
            ),
        ),
        migrations.AddField(
            model_name="metricversion",
            name="attributes",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="What its scorer declares of each attribute: name, meaning and threshold; set at its first scoring.",
            ),
        ),
        migrations.AddField(
            model_name="metricversion",
            name="most_missing",
            field=models.FloatField(
                blank=True,
                help_text="As of its metric when it was published last; null: any share was ranked.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="metricversion",
            name="undeclared",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="Labels ranked as harms though nobody declared them so: of versions from before declarations.",
            ),
        ),
        migrations.AddField(
            model_name="result",
            name="missing_texts",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Continuations without a score, where `missing` counts prompts without any.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="result",
            name="worst_high",
            field=models.FloatField(
                blank=True, help_text="The largest that the missing texts can make of it.", null=True
            ),
        ),
        migrations.AddField(
            model_name="result",
            name="worst_low",
            field=models.FloatField(
                blank=True, help_text="The least that the missing texts can make of it.", null=True
            ),
        ),
        migrations.AddField(
            model_name="scoring",
            name="texts",
            field=models.PositiveIntegerField(
                blank=True, help_text="That were to be scored; null: not counted.", null=True
            ),
        ),
        migrations.AddField(
            model_name="scoring",
            name="texts_missing",
            field=models.PositiveIntegerField(blank=True, help_text="Of these, how many have no score.", null=True),
        ),
        migrations.AddConstraint(
            model_name="metric",
            constraint=models.CheckConstraint(
                condition=models.Q(("most_missing__gte", 0), ("most_missing__lte", 1)),
                name="metric_most_missing_is_a_share",
            ),
        ),
        migrations.AddConstraint(
            model_name="result",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("worst_high__isnull", True), ("worst_low__isnull", True)),
                    ("worst_low__lte", models.F("worst_high")),
                    _connector="OR",
                ),
                name="result_worst_cases_ordered",
            ),
        ),
        migrations.AddConstraint(
            model_name="scoring",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("texts__isnull", True), ("texts_missing__isnull", True)),
                    ("texts_missing__lte", models.F("texts")),
                    _connector="OR",
                ),
                name="scoring_missing_within_texts",
            ),
        ),
        migrations.RunPython(mark_undeclared, migrations.RunPython.noop),
        migrations.RunPython(file_unique_fractions, migrations.RunPython.noop),
    ]
