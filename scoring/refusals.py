"""What is asked for and cannot be done: one base for the engine and the site."""

from typing import Self

WHOLE = "__all__"  # in place of a field: what concerns no field alone


class Refused(ValueError):
    """The request is at fault, and nothing of it was done. The message says what is wrong and what to do.

    field: which part of the request is wrong, where it is one; value: what it held; remedy: what to do, where the
    message does not say it. problems: the messages by field, or under WHOLE.
    """

    def __init__(self, message: str = "", *, field: str = "", value: object = None, remedy: str = "") -> None:
        super().__init__(message)
        self.field, self.value, self.remedy = field, value, remedy
        self.problems: dict[str, list[str]] = {field or WHOLE: [message]}

    @classmethod
    def of_value(cls, field: str, value: object, problem: str) -> Self:
        """A value that will not do, as in `k = 0: use 1 or more`."""
        return cls(f"{field} = {value!r}: {problem}", field=field, value=value)

    @classmethod
    def of_field(cls, field: str, problem: str) -> Self:
        """A field that will not do, as in `reason: it is empty; say why`."""
        return cls(f"{field}: {problem}", field=field)


class Missing(Refused):
    """The request names something that does not exist."""
