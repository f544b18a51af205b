"""Verdicts on a succession: a rule each for labels and for ranks."""

from enum import StrEnum

from scoring.metrics.agreement import LabelAgreement
from scoring.succession.orders import OrderComparison
from scoring.succession.texts import AttributePreservation

LEAST_KAPPA = 0.8  # "almost perfect" in the words of Landis & Koch 1977 (Biometrics 33:159)
FEWEST_ENTRIES = 3


class Preservation(StrEnum):
    """What becomes of numbers under the successor."""

    PRESERVED = "preserved"
    MAPPED = "preserved after mapping"
    LOST = "not preserved"
    UNKNOWN = "unknown"


def judge_labels(texts: AttributePreservation) -> Preservation:
    """Whether texts keep their label: they do where the lower bound of Cohen's kappa is 0.8 or more.

    Judged of the successor's own labels first, then of those after the mapping. Unknown where the old scorer gives no
    text the label, or every one: as kappa then says nothing.
    """
    if texts.labels is None or not 0 < texts.labels.both + texts.labels.only_first < texts.n:
        return Preservation.UNKNOWN
    for labels, preservation in (
        (texts.labels, Preservation.PRESERVED),
        (texts.error.labels if texts.error else None, Preservation.MAPPED),
    ):
        if _is_kept(labels):
            return preservation
    return Preservation.LOST


def judge_ranks(orders: OrderComparison | None) -> Preservation:
    """Whether ranks are kept: they are where no pair whose intervals lie apart under the old scorer is reversed.

    Judged under the successor first, then after the mapping. Unknown of fewer than three entries, and where no pair's
    intervals lie apart: then there is no order to keep.
    """
    if orders is None or len(orders.old_ranks) < FEWEST_ENTRIES or not orders.settled_pairs:
        return Preservation.UNKNOWN
    if not orders.new_settled_reversals:
        return Preservation.PRESERVED
    return Preservation.MAPPED if orders.mapped_settled_reversals == 0 else Preservation.LOST


def _is_kept(labels: LabelAgreement | None) -> bool:
    return labels is not None and labels.kappa_interval is not None and labels.kappa_interval[0] >= LEAST_KAPPA
