"""Which mutants are drawn: of each package a number by its size, of its lines each with the same chance."""

import random
from collections import defaultdict
from pathlib import Path

from tests.mutants.operators import Mutant, list_mutants
from tests.mutants.touching import PACKAGES


def name_stratum(path: str) -> str:
    """The package that a module counts for: a folder of `leaderboard` or `scoring`, or what lies in neither."""
    return "/".join(Path(path).parts[:2]) if len(Path(path).parts) > 2 else Path(path).parts[0]


def draw_mutants(count: int, seed: int) -> list[Mutant]:
    """`count` mutants in an order in which each beginning is a sample too; the same ones for the same code and seed."""
    dice = random.Random(seed)  # noqa: S311
    lines: dict[str, dict[tuple[str, int], list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(str(path) for package in PACKAGES for path in Path(package).rglob("*.py")):
        if "migrations" not in Path(path).parts:
            for mutant in list_mutants(Path(), path):
                lines[name_stratum(path)][path, mutant.line].append(mutant)
    shares = share_out(count, {stratum: len(places) for stratum, places in lines.items()})
    mutants = []
    for stratum, share in shares.items():
        for place in dice.sample(sorted(lines[stratum]), share):
            mutants.append(dice.choice(lines[stratum][place]))
    dice.shuffle(mutants)
    return mutants


def share_out(count: int, sizes: dict[str, int]) -> dict[str, int]:
    """How many of `count` each stratum gets: one where that goes, the others by largest remainders of size."""
    least = 1 if count >= len(sizes) else 0
    spare = count - least * len(sizes)
    exact = {stratum: spare * size / sum(sizes.values()) for stratum, size in sizes.items()}
    shares = {stratum: least + int(part) for stratum, part in exact.items()}
    by_remainder = sorted(exact, key=lambda stratum: (int(exact[stratum]) - exact[stratum], stratum))
    for stratum in by_remainder[: count - sum(shares.values())]:
        shares[stratum] += 1
    return {stratum: min(share, sizes[stratum]) for stratum, share in shares.items()}
