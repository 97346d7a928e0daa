"""How a declared column becomes coded numbers and back: the only implementation, for fit, predict, export and reports.

`cells` reads stored values: as Arrow arrays, as they are spelled, as numbers and dates. `encoders` turns them into numbers within
bounds or codes of levels. `columns` reads and writes names ``"party.column"``, maps numbers to [−1, 1] and levels to indicators,
and maps back to the columns' own units.
"""
