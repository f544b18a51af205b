"""The version of the rule by which control checks decide.

A control set is measured for one version of the rule. Raise CHECK_VERSION where sets made before cannot be checked as
the rule now asks: boards then score all entries again, under a version with a control set of its own.
"""

CHECK_VERSION = 2
# By version from 2 on: what it decides otherwise than the one before.
CHANGES: dict[int, str] = {
    2: "Control texts are scored several times at the opening, and a check compares with each text's own noise instead "
    "of the largest of all.",
}


def describe_rule_changes(version: int) -> str:
    """What was changed after `version`, in words; empty where nothing was."""
    return " ".join(CHANGES[number] for number in range(version + 1, CHECK_VERSION + 1))
