"""Names of a package that are imported when they are first asked for: who needs no torch starts without it."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def import_lazily(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """A `__getattr__` for `package` that takes the names in `modules` from the module that each is listed under.

    It raises AttributeError for any other name.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def import_name(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return import_name
