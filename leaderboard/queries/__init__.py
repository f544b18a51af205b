"""What pages show: read from the database in a constant number of queries, and arranged. Nothing here writes."""
