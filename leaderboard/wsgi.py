"""WSGI entry point: `gunicorn --config python:leaderboard.serving`."""

import gc
import os

import scipy.stats  # noqa: F401 (now, rather than for the first page that needs it)
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
# Correlations of a page take a millisecond; threads that wait for the next one would keep other pages from the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
django_application = get_wsgi_application()
get_resolver().url_patterns  # noqa: B018 (imports the views now, rather than at the first request)

from leaderboard.early import answer_early  # noqa: E402 (once Django is ready)
from leaderboard.views.page_store import digest_makers  # noqa: E402

digest_makers()  # reads the names of all files, once for all web processes
application = answer_early(django_application)
# What was imported stays: no page has to wait while the garbage collector looks through all libraries for garbage.
gc.freeze()
