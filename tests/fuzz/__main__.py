"""`make fuzz`: feed each parser spoilt inputs, and print what came of them.

    make fuzz [PARSER="csv gguf"] [RUNS=100000] [SEED=1]

A campaign that was ended goes on where it stood: what it has come to lies in var/fuzz.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.fuzz.campaign import load_tally, make_input, run_campaign, save_tally
from tests.fuzz.parsers import PARSERS

FOLDER = Path("var/fuzz")


def main() -> int:
    """Run the campaigns. Returns 1 where anything was found."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parsers", nargs="*", metavar="PARSER", help=", ".join(PARSERS))
    arguments.add_argument("--runs", type=int, default=100_000, help="inputs of each parser")
    arguments.add_argument("--seed", type=int, default=1, help="of the inputs (default: 1)")
    arguments.add_argument("--show", type=int, metavar="NUMBER", help="write this input of the parser instead")
    args = arguments.parse_args()
    if unknown := set(args.parsers) - PARSERS.keys():
        arguments.error(f"{', '.join(sorted(unknown))}: use {', '.join(PARSERS)}")
    parsers = [PARSERS[name] for name in args.parsers or PARSERS]
    if args.show is not None:
        parsers[0].prepare()
        sys.stdout.buffer.write(make_input(parsers[0], parsers[0].seeds(), args.seed, args.show)[1])
        return 0
    finds = 0
    print(f"{'parser':18}{'inputs':>9}{'accepted':>10}{'refused':>9}{'worst time':>12}{'worst memory':>14}{'found':>7}")
    with tempfile.TemporaryDirectory(prefix="plumbline-fuzz-") as scratch:
        for parser in parsers:
            record = FOLDER / f"{parser.name}.json"
            tally = load_tally(record, args.seed)
            run_campaign(parser, args.runs, args.seed, Path(scratch), tally, partial(save_tally, record, args.seed))
            finds += len(tally.finds)
            print(
                f"{parser.name:18}{tally.inputs:>9,}{tally.accepted:>10,}{tally.refused:>9,}"
                f"{1000 * tally.slowest:>9,.1f} ms{tally.largest / 2**20:>11.1f} MB{len(tally.finds):>7}",
                flush=True,
            )
            for number, problem in tally.finds.items():
                print(f"  input {number}: {problem}", flush=True)
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
