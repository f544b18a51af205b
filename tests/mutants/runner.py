"""Run pytest once for each line of standard input, in a process that has the libraries loaded already.

Their import takes longer than most tests of a mutant. A line holds the arguments of pytest and the file for what it
prints, as JSON; the answer is a line with the number of the process, and when it has ended one with what it returned.
"""

import gc
import json
import os
import sys
from importlib import import_module

import pytest

LIBRARIES = (  # none of the project, which is what changes
    "accelerate",
    "boto3",
    "celery",
    "django.contrib.admin",
    "django.test",
    "httpx",
    "plotly.graph_objects",
    "pyarrow.parquet",
    "schemathesis",
    "scipy.stats",
    "sympy",
    "torch",
    "transformers.modeling_utils",
)


def run_pytest(arguments: list[str], output: str) -> None:
    """Become a process of a session of its own that ends as pytest does."""
    os.setsid()
    for name, flags, numbers in ((os.devnull, os.O_RDONLY, (0,)), (output, os.O_WRONLY | os.O_CREAT, (1, 2))):
        file = os.open(name, flags)
        for number in numbers:
            os.dup2(file, number)
    # Plugins of pytest are loaded, too: what they assert is not rewritten, so that it fails with fewer words.
    sys.exit(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments]))


def main() -> None:
    """Serve until the input ends."""
    for name in LIBRARIES:
        import_module(name)
    gc.freeze()
    for line in sys.stdin:
        arguments, output = json.loads(line)
        process = os.fork()
        if not process:
            run_pytest(arguments, output)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
