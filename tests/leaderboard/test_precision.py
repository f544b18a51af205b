"""Entries of one revision in several precisions: told apart, computed in what they declare, and never mixed."""

from io import StringIO

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from leaderboard.models import LanguageModel
from leaderboard.queries.profiles import newer_and_older, other_revisions
from leaderboard.services import artefacts, collect
from leaderboard.services.language_models import add_model
from leaderboard.services.manifest import describe_entry
from leaderboard.services.memory import (
    GB,
    LIBRARIES,
    explain_size,
    memory_needed,
    most_parameters,
    seconds_estimated,
)
from leaderboard.services.recollect import recollect
from scoring.language_models import BUNDLED, load, resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL, finish
from tests.scoring.quantised import fp8, llama

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]
FOLDER = str(BUNDLED / CAUSAL)


@pytest.mark.slow
def test_a_revision_has_an_entry_for_each_precision_told_apart_by_slug_name_and_label():
    usual, new = add_model(FOLDER, name="Tiny")
    rounded, also_new = add_model(FOLDER, name="Tiny", precision="bfloat16")
    assert (new, also_new) == (True, True)
    assert (usual.slug, usual.name, usual.precision, usual.precision_label) == ("tiny", "Tiny", "", "")
    assert (rounded.slug, rounded.name) == ("tiny-bfloat16", "Tiny (bfloat16)")
    assert rounded.precision_label == "bfloat16"
    assert add_model(FOLDER, precision="bfloat16") == (rounded, False)
    assert add_model(FOLDER) == (usual, False)


def test_what_readers_see_names_quantised_weights_and_a_declared_precision():
    labels = {
        ("", ""): "",
        ("float32", ""): "",
        ("bfloat16", ""): "",
        ("bfloat16", "float32"): "float32",
        ("FP8", ""): "FP8",
        ("FP8", "bfloat16"): "FP8, in bfloat16",
        ("GGUF Q4_K_M", "float16"): "GGUF Q4_K_M, in float16",
    }
    for (weight_format, precision), label in labels.items():
        assert LanguageModel(weight_format=weight_format, precision=precision).precision_label == label


@pytest.mark.slow
def test_the_command_takes_a_precision_and_refuses_what_is_none():
    out = StringIO()
    call_command("add_model", FOLDER, "--precision", "float16", stdout=out)
    assert LanguageModel.objects.get(precision="float16").slug in out.getvalue()
    assert " layers, float16, revision " in out.getvalue()
    with pytest.raises(CommandError, match="int3"):
        call_command("add_model", FOLDER, "--precision", "int3")
    with pytest.raises(Refused, match="precision = 'int3': use float32, bfloat16, float16"):
        add_model(FOLDER, precision="int3")


@pytest.mark.slow
def test_a_declared_precision_is_what_a_run_computes_in_and_is_part_of_it(metric, models):
    rounded, _ = add_model(FOLDER, precision="bfloat16")
    usual_run = finish(models[CAUSAL], metric).run
    scoring = finish(rounded, metric)
    run = scoring.run
    assert run.protocol == usual_run.protocol
    texts = artefacts.load(run.protocol.evaluation_set.artefact)["text"].to_pylist()
    resolved = resolve(FOLDER)
    loaded = load(resolved.source, resolved.location, resolved.revision, precision="bfloat16")
    expected = token_log_likelihoods(loaded, texts, LikelihoodSettings(precision="bfloat16"))
    stored = artefacts.load(run.artefact)["token_log_likelihoods"].to_pylist()
    assert all(np.array_equal(a, b.tokens) for a, b in zip(stored, expected, strict=True))
    assert stored != artefacts.load(usual_run.artefact)["token_log_likelihoods"].to_pylist()
    assert run.self_test["precision"] == run.environment["precision"] == "bfloat16"
    assert "precision" not in usual_run.environment
    assert usual_run.self_test["precision"] == "float32"
    described = describe_entry(scoring)
    assert (described["model"]["precision"], described["run"]["environment"]["precision"]) == ("bfloat16", "bfloat16")
    environment = collect.environment()
    assert collect.dependencies_of(run, environment)["model"][-1] == "bfloat16"
    assert len(collect.dependencies_of(usual_run, environment)["model"]) == 4
    assert recollect(run, 5) == (5, [])


def test_the_estimate_of_memory_depends_on_the_precision_and_a_refusal_names_one_that_fits(settings):
    assert memory_needed(10**9, "float32") == memory_needed(10**9) == memory_needed(10**9, "")
    settings.WORKER_MEMORY_GB = 8.0
    assert most_parameters("bfloat16") > most_parameters("float32") > 1e9
    size = (most_parameters("float32") + most_parameters("bfloat16")) // 2
    assert memory_needed(size, "bfloat16") < 8 * GB < memory_needed(size, "float32")
    assert explain_size(size, "bfloat16") == ""
    assert "Choose bfloat16 or float16, which fits" in explain_size(size)
    assert "Submit a smaller one" in explain_size(10 * size, "bfloat16")


@pytest.mark.slow
def test_a_quantised_model_is_entered_with_its_format_and_evaluated_in_a_cage(metric, tmp_path):
    folder, _, _ = fp8(*llama(tmp_path))
    model, _ = add_model(str(folder), precision="bfloat16")
    assert (model.weight_format, model.precision_label) == ("FP8", "FP8, in bfloat16")
    run = finish(model, metric).run
    assert run.self_test["precision"] == "bfloat16"
    assert describe_entry(run.scorings.get())["model"]["weight_format"] == "FP8"


@pytest.mark.slow
def test_an_entry_in_another_precision_is_no_newer_revision_and_says_what_it_is(client):
    usual, _ = add_model(FOLDER, name="Tiny")
    rounded, _ = add_model(FOLDER, name="Tiny", precision="bfloat16")
    assert (newer_and_older(usual), other_revisions(usual)) == (([], []), [rounded])
    assert other_revisions(rounded) == [usual]
    page = client.get(rounded.get_absolute_url()).content.decode()
    assert "bfloat16, as this entry declares" in page
    assert "A newer revision" not in client.get(usual.get_absolute_url()).content.decode()


# Of `python -m tests.bench memory`: parameters in millions, megabytes beyond the libraries, seconds for 1,000 texts.
MEASURED = {
    "float32": ((13, 127, 9.3), (38, 215, 33.0), (120, 578, 70.6), (277, 1208, 212.7), (434, 1789, 283.1)),
    "bfloat16": ((13, 85, 4.1), (38, 111, 19.3), (120, 265, 33.5), (277, 575, 144.8), (434, 891, 139.9)),
    "float16": ((13, 54, 36.7), (38, 95, 173.2), (120, 251, 496.4), (277, 563, 673.4), (434, 874, 1062.3)),
}


@pytest.mark.parametrize("precision", MEASURED)
def test_estimates_of_memory_and_time_agree_with_what_was_measured_for_five_sizes(precision):
    for millions, megabytes, seconds in MEASURED[precision]:
        memory = (memory_needed(millions * 10**6, precision) - LIBRARIES) / 1e6
        assert megabytes <= memory <= 1.15 * megabytes + 90  # never too little, and little too much
        assert 0.6 * seconds <= seconds_estimated(millions * 10**6, 1000, precision) <= 1.6 * seconds
