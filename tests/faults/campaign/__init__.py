"""A campaign of faults against whole boards: drawn from a seed, each followed by the same invariants.

schedule    which fault meets which phase of work, when and for how long
board       a real board: PostgreSQL or SQLite, broker, web, workers and beat, on a disk of its own
phases      work that can be brought about again and again, and what came of it
injectors   how each kind of fault is made, and ended
invariants  what must hold after each fault
driver      one board, which goes through its part of the schedule
report      the table
"""
