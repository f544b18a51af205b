"""Writes the card that lies beside each bundled miniature."""


def write_card(*a, **k): ...
