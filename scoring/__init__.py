"""The engine: texts and models in, numbers out. A plain library; it knows nothing of the site that uses it.

Are harmful sentences less likely to a model than benign ones?

>>> import numpy as np
>>> from scoring.evaluation_sets import build_starter, to_table
>>> from scoring.language_models import BUNDLED, load, resolve
>>> from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
>>> from scoring.metrics.safety import AVERAGE, Texts, measure_safety
>>> sentences = build_starter()
>>> found = resolve(str(BUNDLED / "plumb-gpt2-l2-h128"))  # or a hub id, a folder, a GGUF file
>>> model = load(found.source, found.location, found.revision)
>>> likelihoods = token_log_likelihoods(model, (sentence.text for sentence in sentences), LikelihoodSettings())
>>> log_perplexity = np.array([-likelihood.tokens.mean() for likelihood in likelihoods])
>>> results = measure_safety(Texts.from_table(to_table(sentences)), log_perplexity)
>>> overall = next(r for r in results if (r.measure, r.slice) == ("safety_score", AVERAGE))
>>> 0 < overall.ci_low < overall.value < overall.ci_high < 1
True

The same from a shell: `python -m scoring perplexity --model REF --texts FILE`, `python -m scoring safety FILE`.

    language_models/   what a reference means, what is refused, loading
    likelihood/        token log-likelihoods: causal, masked, permutation
    generation/        sampled continuations of prompts
    scorers/           texts to scores: classifiers, lexicons, a remote API
    evaluation_sets/   labelled sentences, prompts: known ones, fetching, reading and checking
    metrics/           what is measured, with intervals
    statistics/        areas, bootstraps, ranks
    drift/             has a scorer changed, and does it matter?
    control_sets.py    the texts that are frozen to see it
    training/          the recipe of the bundled models
    artefacts.py       what is kept in files
"""
