"""Metrics: from an evaluation set and what a model made of it to numbers. Each declares its measures as data."""

from scoring.metrics.measures import Measure, Measurement
from scoring.metrics.safety import FORMULA_VERSION, MEASURES, SAFETY_SCORE

__all__ = ["FORMULA_VERSION", "MEASURES", "SAFETY_SCORE", "Measure", "Measurement"]
