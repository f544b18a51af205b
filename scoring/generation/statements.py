"""Statements: prompts with their continuations, as texts of their own."""

from collections.abc import Sequence
from dataclasses import replace

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.continuation import Continuation
from scoring.language_models import LoadedModel
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods


def with_log_perplexities(
    loaded: LoadedModel, prompts: Sequence[Prompt], found: Sequence[Sequence[Continuation]]
) -> list[list[Continuation]]:
    """The same continuations, each with the log-perplexity of its whole statement to the model that made it."""
    statements = [
        prompt.text + item.text
        for prompt, items in zip(prompts, found, strict=True)
        for item in items
        if item.text is not None
    ]
    likelihoods = token_log_likelihoods(loaded, statements, LikelihoodSettings(precision=loaded.precision))
    return [
        [
            item if item.text is None else replace(item, log_perplexity=next(likelihoods).log_perplexity)
            for item in items
        ]
        for items in found
    ]
