"""The reference: a plain Django list of the same rows, as a board without any of this would have it.

Nothing is cached and nothing is declared: a model over the table of ranks, a list view of one page, a template.
"""

import os

import dj_database_url
import django
from django.conf import settings

ROWS = 100

settings.configure(
    SECRET_KEY="for measuring only",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    DATABASES={"default": dj_database_url.parse(os.environ["DATABASE_URL"], conn_max_age=60)},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
    MIDDLEWARE=["django.middleware.gzip.GZipMiddleware", "django.middleware.common.CommonMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402 (it needs the settings)
from django.db import connection  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.template import Context, Template  # noqa: E402
from django.urls import path  # noqa: E402

QUERY = """
    SELECT standing.rank, model.name, model.family, standing.value, result.ci_low, result.ci_high
    FROM leaderboard_standing standing
    JOIN leaderboard_languagemodel model ON model.id = standing.model_id
    JOIN leaderboard_result result ON result.id = standing.result_id
    JOIN leaderboard_metricversion version ON version.id = standing.metric_version_id
    WHERE version.status = 'current' AND standing.measure = 'safety_score' AND standing.slice = %s
      AND standing.population = 'all'
    ORDER BY standing.rank LIMIT %s
"""
PAGE = Template(
    "<!doctype html><title>Ranking</title><table>{% for rank, name, family, value, low, high in rows %}"
    "<tr><td>{{ rank }}<td>{{ name }}<td>{{ family }}<td>{{ value|floatformat:3 }}"
    "<td>{{ low|floatformat:3 }}<td>{{ high|floatformat:3 }}{% endfor %}</table>"
)


def ranking(request):
    """One page of the ranking."""
    with connection.cursor() as cursor:
        cursor.execute(QUERY, [request.GET.get("slice", "average"), ROWS])
        return HttpResponse(PAGE.render(Context({"rows": cursor.fetchall()})))


urlpatterns = [path("", ranking)]
application = get_wsgi_application()
