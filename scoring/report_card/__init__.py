"""The report card of a scorer: how right it is on texts that people labelled, for whom, and in which language.

texts = read_labelled(path)
card = make_card(texts, values, threshold=0.5)  # values: float [n], NaN where the scorer gave no score
"""

from scoring.report_card.card import ReportCard, make_card
from scoring.report_card.labelled_texts import FORMS, LabelledTexts, UnreadableLabels, label_sentences, read_labelled

__all__ = ["FORMS", "LabelledTexts", "ReportCard", "UnreadableLabels", "label_sentences", "make_card", "read_labelled"]
