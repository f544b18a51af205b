"""The version of the rule by which control checks decide.

A control set is measured for one version of the rule. Raise CHECK_VERSION where sets made before cannot be checked as
the rule now asks: boards then score all entries again, under a version with a control set of its own.
"""

CHECK_VERSION = 1
CHANGES: dict[int, str] = {}  # by version from 2 on: what it decides otherwise than the one before


def describe_rule_changes(version: int) -> str:
    """What was changed after `version`, in words; empty where nothing was."""
    return " ".join(CHANGES[number] for number in range(version + 1, CHECK_VERSION + 1))
