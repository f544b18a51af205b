"""A visitor who reads rankings over and over: each must be of one version, and whole."""

import hashlib
import json
import threading
from collections import defaultdict

import httpx

from tests.faults.campaign.board import Board

PAUSE_SECONDS = 0.4
PATIENCE_SECONDS = 10.0


class Reader:
    """Reads the standings of some metrics in a thread. `rankings`: hashes of what was read, by metric and version."""

    def __init__(self, board: Board, metrics: tuple[str, ...]) -> None:
        self.board, self.metrics = board, metrics
        self.rankings: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.statuses: dict[int, int] = defaultdict(int)  # how often each came; 0: no answer
        # A connection for each reading, as of another visitor.
        self._client = httpx.Client(timeout=PATIENCE_SECONDS, limits=httpx.Limits(max_keepalive_connections=0))
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._keep_reading, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
        self._client.close()

    def _keep_reading(self) -> None:
        while not self._ends.wait(PAUSE_SECONDS):
            for metric in self.metrics:
                try:
                    self._read(metric)
                except (httpx.HTTPError, ValueError, KeyError):
                    self.statuses[0] += 1

    def _read(self, metric: str) -> None:
        address = f"{self.board.address}/api/v1/metrics/{metric}/standings?limit=200"
        answer = self._client.get(address)
        self.statuses[answer.status_code] += 1
        if answer.status_code != 200:
            return
        ranking = answer.json()
        number = ranking["versions"][0]["version"]
        rows = [
            (row["slug"], row["rank"], row["rank_low"], row["rank_high"], row["value"], row["version"] == number)
            for row in ranking["items"]
        ]
        self.rankings[metric, number].add(hashlib.sha256(json.dumps(rows).encode()).hexdigest())

    def find_mixtures(self) -> list[str]:
        """Say which rankings were read that differ from what all versions of a metric show; each difference once."""
        hashes: dict[str, set[str]] = defaultdict(set)
        for (metric, _), contents in self.rankings.items():
            hashes[metric] |= contents
        mixed_metrics = [metric for metric, contents in hashes.items() if len(contents) > 1]
        for key in [key for key in self.rankings if key[0] in mixed_metrics]:
            del self.rankings[key]  # or every later fault would be blamed for it
        return [f"{metric} was read in {len(hashes[metric])} forms" for metric in mixed_metrics]
