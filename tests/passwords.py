"""Passwords of tests, which nobody guesses at."""

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class QuickHasher(PBKDF2PasswordHasher):
    """The board's own hashes after one round, not a million: a fifth of a second for each account and each log-in."""

    iterations = 1
