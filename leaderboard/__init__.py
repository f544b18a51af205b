"""The site: a living leaderboard of language models, on top of the `scoring` library."""

import atexit
import gc

# Every process imports thousands of modules and loads many rows, which stay or go together. To look for circles among
# them each 700 objects took a quarter of a migration's time, and a twentieth of a page's.
gc.set_threshold(20_000)
# Nor is there anything to look for in a process that ends: it took 0.2 s of each command.
atexit.register(gc.freeze)

from leaderboard.celery import app as celery_app  # noqa: E402 (importing it is the first that gains)

__all__ = ["celery_app"]
