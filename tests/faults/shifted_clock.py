"""A program whose clock is off, while what it measures with a stopwatch stays right.

python -m tests.faults.shifted_clock SECONDS MODULE [ARGUMENT...]
"""

import runpy
import sys
from datetime import UTC, datetime, timedelta

import time_machine

if __name__ == "__main__":
    offset, module, *arguments = sys.argv[1:]
    time_machine.travel(datetime.now(UTC) + timedelta(seconds=float(offset)), tick=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
