"""Parsers of what strangers send, fed with 100,000 spoilt inputs each: `make fuzz`."""
