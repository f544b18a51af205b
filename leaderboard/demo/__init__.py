"""A demonstration: a board whose scorers really change, and what it does about that with no hand laid on."""
