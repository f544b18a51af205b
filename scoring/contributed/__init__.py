"""Outputs that other people made: read as a stream, checked, and turned into the tables of artefacts.

from scoring.contributed import ContributionRefused, read_generations

try:
    table = read_generations(file, "outputs.jsonl.gz", prompts, k=25)  # of the `continuations` schema
except ContributionRefused as refused:
    print(refused.report)
"""

from scoring.contributed.generations import read_generations
from scoring.contributed.likelihoods import read_likelihoods
from scoring.contributed.limits import Limits
from scoring.contributed.report import ContributionRefused, Flaw, Matched, Problem, Report
from scoring.contributed.templates import generations_template, likelihoods_template

__all__ = [
    "ContributionRefused",
    "Flaw",
    "Limits",
    "Matched",
    "Problem",
    "Report",
    "generations_template",
    "likelihoods_template",
    "read_generations",
    "read_likelihoods",
]
