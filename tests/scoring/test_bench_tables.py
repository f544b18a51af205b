"""Each table of `make bench` begins."""

import os
import subprocess
import sys

import pytest

from tests.bench.__main__ import TABLES

# Each is imported by a process that has imported no other table, and the libraries that most of them need only once.
IMPORT_EACH = """
import os, sys
from importlib import import_module
from transformers import BertForMaskedLM, GPT2LMHeadModel, LlamaForCausalLM
import scoring.language_models.loading
for name in sys.argv[1:]:
    if not (child := os.fork()):
        import_module(f"tests.bench.{name}")
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name)
"""


@pytest.mark.slow  # each imports other libraries of the field
def test_each_table_of_the_bench_can_be_asked_for_alone():
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT_EACH, *TABLES],
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == "", process.stderr
