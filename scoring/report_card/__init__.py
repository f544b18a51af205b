"""The report card of a scorer: how right it is on texts that people labelled, for whom, and in which language.

card = make_card(texts, values, threshold=0.5)  # values: float [n], NaN where the scorer gave no score
"""

from scoring.report_card.card import ReportCard, make_card

__all__ = ["ReportCard", "make_card"]
