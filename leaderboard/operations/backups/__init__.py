"""Backups: database and files of a board as one set, elsewhere, that is verified by restoring it."""
