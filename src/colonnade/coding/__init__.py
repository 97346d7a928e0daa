"""How a declared column becomes coded numbers and back: the only implementation, for fit, predict, export and reports.

`names` reads and writes ``"party.column"``. `cells` turns stored values into numbers within bounds or codes of levels. `features`
maps numbers to [−1, 1] and levels to indicators, and back to the columns' own units.
"""
