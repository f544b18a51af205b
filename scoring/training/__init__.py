"""Recipes that produce language models."""
