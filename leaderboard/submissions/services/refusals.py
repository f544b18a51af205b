"""The refusal of a submission."""

from scoring.refusals import WHOLE, Refused


class SubmissionRefused(Refused):
    """A submission is refused. `problems`: for each field, what is wrong and what to do; WHOLE: for no single field."""

    def __init__(self, problems: dict[str, list[str]]) -> None:
        super().__init__("\n".join(f"{self._prefix(field)}{text}" for field in problems for text in problems[field]))
        self.problems = problems

    @staticmethod
    def _prefix(field: str) -> str:
        return "" if field == WHOLE else f"{field}: "
