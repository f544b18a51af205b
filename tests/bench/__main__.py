"""`make bench`: the benchmark tables, as ratios against named references measured in the same run.

    make bench [likelihood gpu memory stereotypes distillation cage statistics safety generation scorers
                measures intervals areas missing drift files idle pages charts]

The machine should do nothing else meanwhile: two processes that share its cores slow each other far more than twofold.
"""

import argparse
import os
import warnings
from importlib import import_module

TABLES = (
    "likelihood",
    "gpu",
    "memory",
    "stereotypes",
    "distillation",
    "cage",
    "statistics",
    "safety",
    "generation",
    "scorers",
    "measures",
    "intervals",
    "areas",
    "missing",
    "drift",
    "files",
    "idle",
    "pages",
    "charts",
)


def main() -> None:
    """Print the tables asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=TABLES, metavar="TABLE", help="(default: all)")
    warnings.simplefilter("ignore")  # the references' own
    os.environ["SLOW_PRECISIONS"] = "bfloat16,float16"  # how slow they are is a figure of the tables
    for name in parser.parse_args().tables:
        print(f"\n{name}")
        getattr(import_module(f"tests.bench.{name}"), f"{name}_table")()


if __name__ == "__main__":
    main()
