"""The table of a campaign: what happened to how many, how many held, and how long it took to be told and to recover."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.faults.campaign.schedule import KINDS, PHASES, TOLD_WITHIN

Record = dict[str, Any]


def describe_campaign(records: list[Record], seed: int, place: str, minutes: float) -> str:
    """The whole report as Markdown."""
    faults = [record for record in records if record.get("kind", "none") != "none"]
    held = [record for record in faults if not record["violations"]]
    in_time = sum(record.get("in_time", False) for record in faults)
    delays = [record["told"] for record in faults if record.get("told") is not None]
    lines = [
        f"{len(faults)} faults on {place}, seed {seed}, in {minutes:.0f} minutes: {len(held)} held. "
        f"{in_time} came while the work of their phase was under way, the others just after it. "
        f"{len(delays)} lasted until somebody was told of them, the slowest after {max(delays, default=0):.0f} s "
        f"(at most {TOLD_WITHIN:.0f} s).",
        "",
        *tabulate(faults),
    ]
    return "\n".join(lines) + "\n"


def tabulate(faults: list[Record]) -> Iterable[str]:
    """Rows by kind, columns by phase, each cell as held of all; then the longest times in seconds."""
    by_place: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in faults:
        by_place[record["kind"], record["phase"]].append(record)
    yield f"| fault | {' | '.join(PHASES)} | held | told after | recovered after |"
    yield f"|---|{'---|' * len(PHASES)}---|---|---|"
    for kind in KINDS:
        rows = [record for record in faults if record["kind"] == kind]
        if not rows:
            continue
        yield write_row(kind, [by_place[kind, phase] for phase in PHASES], rows)
    yield write_row("all", [[record for record in faults if record["phase"] == phase] for phase in PHASES], faults)


def write_row(name: str, by_phase: list[list[Record]], records: list[Record]) -> str:
    """A row of the table."""
    cells = [*map(share, by_phase), share(records), longest(records, "told"), longest(records, "recovered")]
    return f"| {name} | {' | '.join(cells)} |"


def share(records: list[Record]) -> str:
    """How many held of how many."""
    return f"{sum(not record['violations'] for record in records)}/{len(records)}" if records else ""


def longest(records: list[Record], name: str) -> str:
    """The longest time of a kind, in seconds."""
    times = [record[name] for record in records if record.get(name) is not None]
    return f"{max(times):.0f} s" if times else ""
