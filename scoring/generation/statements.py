"""Statements: prompts with their continuations, as texts of their own."""

from collections.abc import Sequence
from dataclasses import replace

from scoring.evaluation_sets.prompts import Prompt
from scoring.generation.continuation import Continuation
from scoring.language_models import LoadedModel
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods


def with_log_perplexities(
    model: LoadedModel, prompts: Sequence[Prompt], continuations: Sequence[Sequence[Continuation]]
) -> list[list[Continuation]]:
    """The same continuations, each with the log-perplexity of its whole statement to the model that generated it."""
    statements = [
        prompt.text + continuation.text
        for prompt, prompt_continuations in zip(prompts, continuations, strict=True)
        for continuation in prompt_continuations
        if continuation.text is not None
    ]
    likelihoods = token_log_likelihoods(model, statements, LikelihoodSettings(precision=model.precision))
    return [
        [
            continuation
            if continuation.text is None
            else replace(continuation, log_perplexity=next(likelihoods).log_perplexity)
            for continuation in prompt_continuations
        ]
        for prompt_continuations in continuations
    ]
