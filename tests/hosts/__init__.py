"""A board on several hosts, each in a network namespace of its own, whose cables can be pulled. Linux, as root."""
