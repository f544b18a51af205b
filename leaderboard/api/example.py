"""Which ranks did the newest version of each metric change? Needs Python alone: python example.py [ADDRESS]"""

import json
import sys
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

BOARD = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"


def pages(path: str, **query: object) -> Iterator[dict[str, Any]]:
    """All items of a list, page by page."""
    address = f"{BOARD}/api/v1{path}?{urlencode(query)}"
    while address:
        with urlopen(address) as answer:
            page = json.load(answer)
        yield from page["items"]
        address = page["next"]


for metric in pages("/metrics"):
    if not metric["current_versions"]:
        continue
    print(metric["title"])
    for entry in pages(f"/metrics/{metric['slug']}/standings", limit=100):
        rank = f"{entry['rank']} of {entry['population_size']} ({entry['population']})"
        print(f"  {rank:>18}  {entry['value']:.4f}  {entry['model']}")
    try:
        for model in pages(f"/metrics/{metric['slug']}/rank-changes"):
            if model["change"]:
                print(f"  {model['model']}: rank {model['from_board_rank']} to {model['to_board_rank']}")
    except HTTPError as error:  # there is one version only: the answer says so
        print(" ", json.load(error)["errors"][0]["message"])
