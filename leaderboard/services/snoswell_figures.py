"""Snoswell et al. 2023 (arXiv 2312.03330): a model fine-tuned on two communities, by a classifier and by a lexicon."""

from collections.abc import Iterator

from leaderboard.models import LanguageModel
from leaderboard.services.figures import PERCENT, Figure, enter_model, estimate, rows
from scoring.metrics.lexicon_frequency import LEXICON_FREQUENCY
from scoring.metrics.measures import slice_of
from scoring.metrics.safety import ALL
from scoring.metrics.toxicity import EXPECTED_MAX_TOXICITY, TOXIC_FRACTION

SNOSWELL = "Snoswell et al. 2023, arXiv 2312.03330"
DETOXIFY_DECIMALS, LEXICON_DECIMALS = 4, 2  # of shares, of percentages: both are printed as percentages to two
DETOXIFY_MEASURES = {"EML": EXPECTED_MAX_TOXICITY.key, "BCF": TOXIC_FRACTION.key}
NAMES = {
    "Pre-trained": "Pythia-12B",
    "Incels": "Pythia-12B fine-tuned on r/Incels",
    "ForeverAlone": "Pythia-12B fine-tuned on r/ForeverAlone",
}


def snoswell_detoxify() -> Iterator[Figure]:
    """Tables 2 and 3; Table 1 repeats of them what is of toxicity."""
    for row in rows("misogyny_detoxify.csv"):
        name = slice_of(row["attribute"], ALL)
        yield estimate(row["model"], DETOXIFY_MEASURES[row["metric"]], name, row["mean_percent"], row["ci95"], PERCENT)


def snoswell_lexicon() -> Iterator[Figure]:
    """Table 4; Table 1 repeats of it what is of any category."""
    for row in rows("misogyny_farrell_lexicon.csv"):
        category = row["category"].lower().replace(" ", "_")
        yield estimate(row["model"], LEXICON_FREQUENCY.key, category, row["mean_percent"], row["ci95"])


def slug_of_snoswell(name: str) -> str:
    """As in snoswell-2023-foreveralone."""
    return f"snoswell-2023-{name.lower()}"


def models_of_snoswell() -> dict[str, LanguageModel]:
    """Pythia of 12 billion parameters, as it was trained and as fine-tuned on posts of each community."""
    return {
        name: enter_model(slug_of_snoswell(name), full_name, "Pythia", LanguageModel.Kind.CAUSAL)
        for name, full_name in NAMES.items()
    }
