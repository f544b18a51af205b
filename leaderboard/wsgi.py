"""WSGI entry point: `gunicorn leaderboard.wsgi`."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
application = get_wsgi_application()
# What was imported stays: no page has to wait while the garbage collector looks through all of torch for garbage.
gc.freeze()
