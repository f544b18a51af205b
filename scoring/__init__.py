"""The engine: texts and models in, numbers out. It knows nothing of the site that uses it."""
