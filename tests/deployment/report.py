"""What the check prints: each step with its seconds, and at the end what the document states."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StepReport:
    """The steps so far, and figures by their names."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []
        self.figures: dict[str, str] = {}

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A step: its title as it begins, its seconds as it ends."""
        print(f"{title} ... ", end="", flush=True)
        began = time.monotonic()
        try:
            yield
        except BaseException:
            print(f"FAILED after {time.monotonic() - began:.0f} s", flush=True)
            raise
        seconds = time.monotonic() - began
        self.steps.append((title, seconds))
        print(f"{seconds:.0f} s", flush=True)

    def note(self, name: str, value: str) -> None:
        """State a figure."""
        self.figures[name] = value
        print(f"    {name}: {value}", flush=True)

    def table(self) -> str:
        """Both as tables of Markdown."""
        lines = ["| step | seconds |", "|---|---|", *(f"| {title} | {seconds:.0f} |" for title, seconds in self.steps)]
        lines += [
            "",
            "| figure | value |",
            "|---|---|",
            *(f"| {name} | {text} |" for name, text in self.figures.items()),
        ]
        return "\n".join(lines)
