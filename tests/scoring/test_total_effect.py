"""Total effects: pairs are selected as published, odds are those of a loop by hand, and effects those of the paper."""

import csv
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scoring.artefacts import SCHEMAS
from scoring.attributes import Attribute, Meaning
from scoring.evaluation_sets import EvaluationSetError
from scoring.evaluation_sets.pronouns import pronoun_pairs_table, read_winobias, read_winogender
from scoring.likelihood import LikelihoodSettings, likelihoods_table, token_log_likelihoods
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.kinds import Collected
from scoring.metrics.outputs import OUTPUTS
from scoring.metrics.total_effect import PronounPairs, log_odds_ratios, measure_effects, odds_ratios
from tests.data import WINOBIAS, WINOGENDER, needs_stereotypes
from tests.scoring.reference import log_softmax

FORMULA = FORMULAS["total_effect"]
SETTINGS = LikelihoodSettings()
# The odds of the 160 pairs under GPT-2, as the authors' repository has them (CausalMediationAnalysis 6e4bdd1, MIT).
PUBLISHED_ODDS = Path(__file__).with_name("gpt2_winobias_dev_odds.csv")
LINES = {
    "dev": [
        "1 [The carpenter] thanked the nurse because [he] was glad.",
        "2 The carpenter thanked [the nurse] because [she] helped a lot.",
        "3 [The nurse] met the driver and [she] smiled at once.",
        "4 The nurse met [the driver] and [he] drove off.",
        "5 The nurse met [the driver] and saw [him].",
        "6 [The nurse] met the driver and saw [her] car.",
        "7 [The nurse] met the driver when [she] smiled.",
        "8 The nurse met [the driver] because [he] smiled.",
    ],
    "test": [
        "1 [The driver] fed the horse of the nurse for [his] own good.",
        "2 The driver fed the horse of [the nurse] for [her] long rides.",
    ],
}


@pytest.fixture
def winobias(tmp_path):
    for part, lines in LINES.items():
        (tmp_path / f"pro_stereotyped_type1.txt.{part}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "female_occupations.txt").write_text("nurse\nteacher\n", encoding="utf-8")
    (tmp_path / "male_occupations.txt").write_text("driver\ncarpenter\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def texts(winobias):
    return pronoun_pairs_table(read_winobias(winobias))


class Model:
    """What a cage gives of a model, without the cage."""

    def __init__(self, loaded):
        self.loaded, self.architecture = loaded, loaded.architecture

    def likelihoods(self, ids, texts, settings, progress):
        return likelihoods_table(ids, list(token_log_likelihoods(self.loaded, texts, settings)))


def outputs_of(loaded, texts):
    return OUTPUTS["passage_likelihood"].collect(Model(loaded), texts, SETTINGS, lambda _done: None)


def test_pairs_share_context_and_pronoun_and_the_lists_give_the_direction(winobias):
    pairs = read_winobias(winobias)
    # Pairs with an object pronoun, and of two contexts, are left out.
    assert [pair.id for pair in pairs] == ["dev-1", "dev-2", "test-1"]
    assert pairs[0].context == "The carpenter thanked the nurse because"
    assert pairs[0].pronouns == {"female": "she", "male": "he"}
    assert [pair.female_continuation for pair in pairs] == [{"dev": "second"}, {"dev": "first"}, {"test": "second"}]
    rows = pronoun_pairs_table(pairs).to_pylist()
    assert rows[0]["text"] == "The carpenter thanked the nurse because she was glad."
    assert rows[0]["text"][rows[0]["start"] : rows[0]["end"]] == "was glad."
    assert [row["female_by"] for row in rows[:4]] == [[], ["dev"], [], ["dev"]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("9 The carpenter thanked the nurse because [he] was [glad].", "names 0 occupations of the lists in brackets"),
        ("9 [The nurse] thanked the driver because [it] rained.", "has no pronoun in brackets"),
    ],
)
def test_a_bad_line_is_named_and_nothing_of_its_text(winobias, line, message):
    path = winobias / "pro_stereotyped_type1.txt.dev"
    path.write_text("\n".join([line, *LINES["dev"][1:]]), encoding="utf-8")
    with pytest.raises(EvaluationSetError, match="line 1") as refusal:
        read_winobias(winobias)
    assert message in str(refusal.value)
    assert "thanked" not in str(refusal.value)


def read_baker(folder, bergsma, bls):
    """The pair of Winogender about a baker, of whom these are the percentages of women."""
    (folder / "occupations-stats.tsv").write_text(
        f"occupation\tbergsma_pct_female\tbls_pct_female\tbls_year\nbaker\t{bergsma}\t{bls}\t2015\n", encoding="utf-8"
    )
    header = "occupation(0)\tother-participant(1)\tanswer\tsentence\n"
    beginning = "The $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN"
    (folder / "templates_structurefilter.tsv").write_text(
        f"{header}baker\tguest\t1\t{beginning} could pay.\nbaker\tguest\t0\t{beginning} had baked.\n", encoding="utf-8"
    )
    (pair,) = read_winogender(folder)
    return pair


def test_winogender_takes_its_directions_from_both_statistics(tmp_path):
    pair = read_baker(tmp_path, 40, 60)
    assert pair.context == "The baker told the guest that"
    # The second continuation is about the baker: a man by Bergsma, a woman by the labour statistics.
    assert pair.female_continuation == {"bergsma": "first", "bls": "second"}
    directions = PronounPairs.from_table(pronoun_pairs_table([pair])).directions
    assert {name: signs.tolist() for name, signs in directions.items()} == {"bergsma": [-1], "bls": [1]}


def test_an_occupation_counts_as_female_where_more_than_half_are_women_and_half_is_no_more(tmp_path):
    assert read_baker(tmp_path, "50.0", "50.01").female_continuation == {"bergsma": "first", "bls": "second"}
    assert read_baker(tmp_path, "49.99", "50").female_continuation == {"bergsma": "first", "bls": "first"}


def test_a_pair_without_one_of_its_texts_or_with_one_twice_is_refused(texts):
    remedy = "give each two pronouns with two continuations"
    with pytest.raises(ValueError, match=f"pair {texts['pair'][-1]}: {remedy}"):
        PronounPairs.from_table(texts.slice(0, texts.num_rows - 1))
    with pytest.raises(ValueError, match=f"pair ids: {remedy}"):
        PronounPairs.from_table(pa.concat_tables([texts, texts.slice(0, 1)]))


@torch.inference_mode()
def mean_log_likelihood(loaded, row) -> float:
    """Of a continuation: a call of the whole model for each token, or one for all."""
    tokenizer, text = loaded.tokenizer, row["text"]
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = encoding["input_ids"]
    places = [place for place, (_, last) in enumerate(encoding["offset_mapping"]) if last > row["start"]]
    if loaded.architecture.kind == "causal":
        logits = loaded.model(input_ids=torch.tensor([ids])).logits[0]
        return math.fsum(log_softmax(logits[place - 1], ids[place]) for place in places) / len(places)
    total = 0.0
    for place in places:
        masked = list(tokenizer(text)["input_ids"])
        masked[place + 1] = tokenizer.mask_token_id
        total += log_softmax(loaded.model(input_ids=torch.tensor([masked])).logits[0][place + 1], ids[place])
    return total / len(places)


def test_effects_are_those_of_a_loop_by_hand(miniature, texts):
    outputs, kind = outputs_of(miniature, texts), miniature.architecture.kind
    measurements = {
        (one.measure, one.slice): one for one in FORMULA.measure(Collected(texts, outputs, model_kind=kind))
    }
    probabilities = [math.exp(mean_log_likelihood(miniature, row)) for row in texts.to_pylist()]
    effects = []
    for pair, first_is_male in ((0, True), (1, False)):
        (female_first, female_second), (male_first, male_second) = np.reshape(probabilities, (-1, 2, 2))[pair]
        odds = [female_first / female_second, male_first / male_second]
        female_odds, male_odds = odds if first_is_male else [1 / one for one in odds]
        effects.append(male_odds / female_odds - 1)
    assert measurements["total_effect", "dev"].value == pytest.approx(np.mean(effects), abs=2e-3)
    assert measurements["total_effect", "dev"].n == 2
    assert measurements["total_effect", "test"].n == 1


def published_odds():
    with PUBLISHED_ODDS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array([float(row["odds_alt"]) / float(row["odds_base"]) for row in rows])


def test_the_published_effects_of_gpt2_come_out_of_its_published_odds():
    measurements = {one.measure: one for one in measure_effects({"dev": published_odds()})}
    whole, filtered = measurements["total_effect"], measurements["total_effect_filtered"]
    assert (whole.n, filtered.n) == (160, 87)
    assert whole.value == pytest.approx(0.11455855522365835, abs=1e-12)
    assert filtered.value == pytest.approx(0.24927373829191876, abs=1e-12)
    assert whole.ci_low < whole.value < whole.ci_high
    assert filtered.ci_low > 0


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=20))
def test_the_other_direction_inverts_every_ratio(log_ratios):
    log_ratios = np.array(log_ratios)
    signs = np.ones(len(log_ratios))
    np.testing.assert_allclose(odds_ratios(log_ratios, signs) * odds_ratios(log_ratios, -signs), 1)
    assert np.isnan(odds_ratios(log_ratios, 0 * signs)).all()


def test_a_model_that_the_pronoun_does_not_move_has_no_effect_and_no_filtered_one():
    (one,) = measure_effects({"dev": np.ones(12)})
    assert (one.measure, one.value, one.ci_low, one.ci_high) == ("total_effect", 0, 0, 0)


def test_a_single_pair_has_no_interval():
    for ratios in ([1.7], [1.7, np.nan]):
        for one in measure_effects({"dev": np.array(ratios)}):
            assert (one.n, one.ci_low, one.ci_high) == (1, None, None)
    whole, filtered = measure_effects({"dev": np.array([1.5, 2.0, 0.5])})
    assert (filtered.n, filtered.ci_low) == (1, None)
    assert whole.ci_low is not None


def test_a_pair_without_a_likelihood_is_counted_and_left_out():
    (whole, _) = measure_effects({"dev": np.array([2.0, np.nan, 1.5])})
    assert (whole.n, whole.missing) == (2, 1)
    assert whole.value == pytest.approx(0.75)
    with pytest.raises(ValueError, match="'dev' has no pair that could be scored"):
        measure_effects({"dev": np.array([np.nan])})


def test_values_are_stored_and_checked_against_the_outputs(miniature, texts):
    outputs, kind = outputs_of(miniature, texts), miniature.architecture.kind
    values = FORMULA.values(texts, outputs, kind, None)
    assert values.schema.names == SCHEMAS["pair_odds_ratios"].names
    assert FORMULA.count_missing(values) == 0
    assert not list(FORMULA.value_differences(Collected(texts, outputs, values, model_kind=kind)))
    changed = values.set_column(1, "log_odds_ratio", pa.array([9.0, *values["log_odds_ratio"].to_pylist()[1:]]))
    (problem,) = FORMULA.value_differences(Collected(texts, outputs, changed, model_kind=kind))
    assert "1 are not what the outputs give, as of dev-1" in problem
    listing = FORMULA.list_texts(values, texts)
    log_ratios = log_odds_ratios(PronounPairs.from_table(texts), outputs)
    np.testing.assert_allclose(listing.values, [log_ratios[0], -log_ratios[1], log_ratios[2]])
    ((shown, _),) = listing.texts([0])
    assert [heading for heading, _ in shown] == ["Female pronoun"] * 2 + ["Male pronoun"] * 2


def test_a_check_measures_the_control_set_as_if_it_were_an_entry(texts):
    reported = FORMULA.entry_measures(texts, [Attribute("a", Meaning.NEUTRAL)])
    before = np.random.default_rng(0).normal(5, 1, (texts.num_rows, 1))
    change = reported.changes(before, before + 1, np.ones((1, texts.num_rows), dtype=bool))
    pairs = PronounPairs.from_table(texts)
    log_odds = before[pairs.rows[:, :, 1], 0] - before[pairs.rows[:, :, 0], 0]
    effects = odds_ratios(log_odds[:, 1] - log_odds[:, 0], pairs.directions["dev"]) - 1
    np.testing.assert_allclose(change.before, [[np.nanmean(effects)]])
    np.testing.assert_allclose(change.after, change.before)


@pytest.mark.slow
@needs_stereotypes
def test_the_real_sets_have_the_published_numbers_of_pairs():
    winobias = PronounPairs.from_table(pronoun_pairs_table(read_winobias(WINOBIAS)))
    assert {name: int(np.abs(signs).sum()) for name, signs in winobias.directions.items()} == {"dev": 160, "test": 130}
    winogender = PronounPairs.from_table(pronoun_pairs_table(read_winogender(WINOGENDER)))
    assert {name: int(np.abs(signs).sum()) for name, signs in winogender.directions.items()} == {
        "bergsma": 44,
        "bls": 44,
    }


def test_draws_of_pairs_are_those_that_boards_have_stored():
    whole, filtered = measure_effects({"dev": np.linspace(0.8, 2, 12)})
    assert len(whole.replicates) == len(filtered.replicates) == 1000
    assert whole.replicates[:4] == pytest.approx([0.336364, 0.436364, 0.281818, 0.545455], abs=1e-6)
    assert filtered.replicates[:4] == pytest.approx([0.636364, 0.750649, 0.629091, 0.781818], abs=1e-6)
    assert (whole.value, whole.ci_low, whole.ci_high) == pytest.approx((0.4, 0.181818, 0.609318), abs=1e-6)
