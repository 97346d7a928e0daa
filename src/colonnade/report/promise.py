"""The promise in plain words: the README's own paragraph, and what the words in a statement mean."""

__all__ = ["EXCEPT", "NONPRIVATE", "PROMISE", "READING"]

PROMISE = (
    "Whatever the coordinator does, crashes, repeats or forges, and whatever up to c other parties see and pool with it (c is in "
    "the signed plan; c ≤ t and c ≤ data parties − 1; default 1), what leaves party P about any one person is (ε, "
    "δ)-differentially private with ε and δ no larger than P's own ledger shows. P's ledger never shows less than was released "
    "and never exceeds P's cap. Where the coordinator is itself a compute node it is assumed to collude with no party. Where a "
    "guarantee rests on a key that the parties share (sketches, secret batches), c = 0. Every statement prints its c and its "
    "assumptions. Peers are semi-honest in their inputs: a party that shares unclipped values can amplify another's row past the "
    "noise (a large multiple of one row's indicator opens that row); the code and every statement say so. Not covered: an "
    "observer of timing on P's own host; more than t colluding compute nodes (for shared steps); denial of service."
)
"""As in README.md, word for word; a test compares the two."""

READING = (
    "ε and δ say how much one person's record can change what an observer sees: for any two tables that differ in one unit, the "
    "odds of anything that this observer sees change by a factor of at most e^ε, except with probability δ. The smaller, the "
    "better hidden. The unit “person” is one person's whole record at all parties; “party” is one person's record at one party. "
    "∞ means that nothing is guaranteed."
)

EXCEPT = "This promise is that of the private methods. The releases marked as not private are outside it."

NONPRIVATE = (
    "NOT PRIVATE. Exact values left the parties in this study. No noise protects anybody in them, no budget measures them, and "
    "nothing in this report bounds what the coordinator could learn from them about one person. Every party allowed this by name "
    "in its own policy."
)
