"""What keeps a submission from being taken."""

WHOLE = "__all__"  # the name that Django's forms have for what concerns no field alone


class SubmissionRefused(ValueError):
    """Nothing was taken. `problems` has for each field what is wrong with it and what to do; WHOLE: of no one field."""

    def __init__(self, problems: dict[str, list[str]]) -> None:
        super().__init__("\n".join(f"{self._named(field)}{text}" for field in problems for text in problems[field]))
        self.problems = problems

    @staticmethod
    def _named(field: str) -> str:
        return "" if field == WHOLE else f"{field}: "
