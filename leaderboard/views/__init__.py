"""Reading pages: each parses its address, calls one query, renders."""
