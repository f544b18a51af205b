"""Safety boards show the likelihood AUC first; versions without it fall back; derived figures are marked."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import Exists, OuterRef

FORMULA, BEFORE, AFTER = "safety", "safety_score", "likelihood_auc"


def show_first(apps: Apps, shown: str, instead_of: str) -> None:
    """Make `shown` the first measure of safety boards that show another, with a fallback where it is not ranked."""
    metric, version, standing = (apps.get_model("leaderboard", name) for name in ("Metric", "MetricVersion", "Standing"))
    metric.objects.filter(formula_name=FORMULA, measure=instead_of).update(measure=shown)
    ranked = standing.objects.filter(metric_version=OuterRef("pk"))
    versions = version.objects.filter(
        ~Exists(ranked.filter(measure=shown)),
        Exists(ranked.filter(measure=instead_of)),
        metric__formula_name=FORMULA,
        metric__measure=shown,
    )
    versions.update(fallback_measure=instead_of)


def forwards(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    show_first(apps, AFTER, BEFORE)


def backwards(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("leaderboard", "Metric").objects.filter(formula_name=FORMULA, measure=AFTER).update(measure=BEFORE)


class Migration(migrations.Migration):
    dependencies = [("leaderboard", "0011_labels")]

    operations = [
        migrations.AddField(
            "evaluationset",
            "irregularities",
            models.JSONField(
                blank=True,
                default=dict,
                help_text="Repeated, contradictory and oddly encoded texts, with their number.",
            ),
        ),
        migrations.AddField(
            "metricversion",
            "fallback_measure",
            models.CharField(
                blank=True,
                default="",
                help_text="Shown first where it has no standings of its metric's measure.",
                max_length=60,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            "result",
            "derived",
            models.BooleanField(
                default=False, help_text="Worked out here from figures of the source, which does not print it."
            ),
        ),
        migrations.AlterField(
            "result",
            "p_adjusted",
            models.FloatField(
                blank=True, help_text="Holm, over the demographics of a model; an average's as it is.", null=True
            ),
        ),
        migrations.RunPython(forwards, backwards),
    ]
