"""Statistics of rankings: areas under the curve with intervals, paired comparisons, ranks with their uncertainty."""
