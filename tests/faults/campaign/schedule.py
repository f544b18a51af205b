"""Which fault meets which phase of work, at which moment and for how long: drawn from a seed, the same every time."""

import random
from dataclasses import dataclass
from itertools import cycle

PHASES = ("collecting", "scoring", "check", "rescoring", "publication", "upload", "import", "migration")
COMMANDS = ("import", "migration")  # phases that an operator's command does, which no worker waits for
TOLD_WITHIN = 120.0  # seconds
LONG_PHASES = 3  # that each long fault meets
BOTH = ("postgresql", "sqlite")
FOLDER, BUCKET = ("folder",), ("bucket",)


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    alerts: the kinds of incident of which one at least must be told of a fault that lasts; () where it is over within
    seconds and heals by itself, so that nobody needs to know. needs_mounts: made with mounts, which only root may.
    left_out: phases that it does not meet.
    """

    name: str
    alerts: tuple[str, ...] = ()
    databases: tuple[str, ...] = BOTH
    storages: tuple[str, ...] = FOLDER + BUCKET
    needs_mounts: bool = False
    left_out: tuple[str, ...] = ()
    heavy: bool = False  # workers load torch anew, which takes many seconds of computing

    @property
    def lasts(self) -> bool:
        return bool(self.alerts)


PROCESSES = ("web", "worker", "files-worker", "gpu-worker", "beat")
WAITS = ("waiting", "retrying")  # work that cannot go on says so itself
SHORT = (
    *(FaultKind(f"kill {name}", heavy=name in ("worker", "gpu-worker")) for name in PROCESSES),
    FaultKind("kill all workers", heavy=True),
    *(FaultKind(f"stop {name}") for name in PROCESSES),
    FaultKind("kill broker, its data lost"),
    FaultKind("end all connections to the database", databases=("postgresql",)),
    FaultKind("crash of the database", databases=("postgresql",)),
    FaultKind("database away", databases=("postgresql",)),
    FaultKind("database stopped", databases=("postgresql",)),
    FaultKind("locked database", databases=("sqlite",)),
    FaultKind("full disk", needs_mounts=True),
    FaultKind("read-only storage", storages=FOLDER, needs_mounts=True),
    FaultKind("storage away", storages=FOLDER, needs_mounts=True),
    FaultKind("truncated files", storages=FOLDER, left_out=("upload", *COMMANDS)),
    FaultKind("bucket answers 500", storages=BUCKET),
    FaultKind("slow bucket", storages=BUCKET),
    FaultKind("bucket breaks answers off", storages=BUCKET),
    FaultKind("kill the command", left_out=tuple(phase for phase in PHASES if phase not in COMMANDS)),
)
# The rule of what is told: a fault that lasts over a minute. The web is watched from outside, by PlumblineDown.
LONG = (
    FaultKind("web stopped for long", ("down",)),
    FaultKind("its worker stopped for long", ("workers", "stuck", "sweep"), left_out=COMMANDS),
    FaultKind("beat stopped for long", ("beat",)),
    FaultKind("broker stopped for long", ("broker",)),
    FaultKind("database away for long", ("database",), databases=("postgresql",)),
    FaultKind("database stopped for long", ("database",), databases=("postgresql",)),
    FaultKind("locked database for long", ("database",), databases=("sqlite",)),
    FaultKind("full disk for long", ("disk",), needs_mounts=True),
    FaultKind("read-only storage for long", ("storage",), storages=FOLDER, needs_mounts=True),
    FaultKind("storage away for long", ("storage",), storages=FOLDER, needs_mounts=True),
    FaultKind("bucket answers 500 for long", ("storage",), storages=BUCKET),
)
KINDS = {kind.name: kind for kind in (*SHORT, *LONG)}


@dataclass(frozen=True)
class Fault:
    """One fault. moment: the share of the phase's work before it; seconds: how long it is, if short."""

    index: int
    phase: str
    kind: str
    moment: float
    seconds: float


def draw(
    seed: int, count: int, database: str, storage: str = "folder", *, may_mount: bool, quick: bool = False
) -> list[Fault]:
    """Return `count` faults: every kind meets every phase before one meets it again; long ones meet some phases.

    On a bucket only its own kinds are drawn: all others are the same as on a folder.

    quick: short ones alone, and none that workers load torch anew for, for a run of a minute or two.
    """
    generator = random.Random(seed)  # noqa: S311 (no secret)
    pairs: list[tuple[str, str]] = []
    for kind in KINDS.values():
        if database not in kind.databases or (kind.needs_mounts and not may_mount):
            continue
        if quick and (kind.lasts or kind.heavy):
            continue
        if storage not in kind.storages or (storage == "bucket" and kind.storages != BUCKET):
            continue
        phases = [phase for phase in PHASES if phase not in kind.left_out]
        if kind.lasts:
            phases = generator.sample(phases, min(LONG_PHASES, len(phases)))
        pairs += [(kind.name, phase) for phase in phases]
    generator.shuffle(pairs)
    if quick:
        pairs = spread_phases(pairs)
    faults = []
    for index, (name, phase) in zip(range(count), cycle(pairs), strict=False):
        moment, seconds = generator.random(), generator.uniform(0.5, 2.0) if quick else generator.uniform(1.0, 9.0)
        faults.append(Fault(index, phase, name, moment, seconds))
    return faults


def spread_phases(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Reorder pairs of kind and phase so that few of them hold many kinds and all phases: each next one is newest."""
    remaining, order = list(pairs), []
    counts: dict[str, int] = {}
    while remaining:
        pair = min(remaining, key=lambda pair: (counts.get(pair[0], 0), counts.get(pair[1], 0)))
        remaining.remove(pair)
        order.append(pair)
        for name in pair:
            counts[name] = counts.get(name, 0) + 1
    return order
