"""WSGI entry point: `gunicorn leaderboard.wsgi`."""

import gc
import os

import scipy.stats  # noqa: F401 (now, rather than for the first page that needs it)
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
# Correlations of a page take a millisecond; threads that wait for the next one would keep other pages from the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
application = get_wsgi_application()
get_resolver().url_patterns  # noqa: B018 (imports the views now, rather than at the first request)
# What was imported stays: no page has to wait while the garbage collector looks through all libraries for garbage.
gc.freeze()
