"""Statistics of rankings: areas under the curve with intervals, paired comparisons, ranks that say what they know."""
