"""Where cages come from on a host without namespaces, Landlock and filters: for tests of what is lacking there."""

from scoring.cage import landlock, sockets, zygote


def deny_namespaces() -> bool:
    """Answer as a kernel that lets nobody make namespaces."""
    return False


def deny_landlock() -> int:
    """Answer as a kernel without Landlock."""
    return 0


def deny_filter() -> bool:
    """Answer as a kernel that filters no calls."""
    return False


if __name__ == "__main__":
    zygote.enter_namespaces = deny_namespaces
    landlock.version = deny_landlock
    sockets.refuse_sockets = deny_filter
    zygote.main()
