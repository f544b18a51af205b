"""Where cages come from on a host without namespaces and Landlock: for tests of what is lacking there."""

from scoring.cage import landlock, zygote


def deny_namespaces() -> bool:
    """Answer as a kernel that lets nobody make namespaces."""
    return False


def deny_landlock() -> int:
    """Answer as a kernel without Landlock."""
    return 0


if __name__ == "__main__":
    zygote.enter_namespaces = deny_namespaces
    landlock.version = deny_landlock
    zygote.main()
