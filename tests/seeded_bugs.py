"""Every deliberate bug with the test that must fail under it, by what it breaks. The ledger has a list of its own (tests/party).

When a claim is added, its bug is added in `tests/seeded`: one change in one place, and the test that has to notice it.
"""

from tests.seeded import (
    aligning,
    clustering,
    coresets,
    estimates,
    floors,
    forged,
    functional,
    gate,
    gradient,
    loading,
    missing,
    network,
    noise,
    operations,
    parallel,
    people,
    prices,
    primitives,
    refusals,
    showing,
    sketches,
    using,
)

SEEDED_BUGS = [
    *noise.BUGS,
    *people.BUGS,
    *missing.BUGS,
    *prices.BUGS,
    *gate.BUGS,
    *estimates.BUGS,
    *primitives.BUGS,
    *clustering.BUGS,
    *coresets.BUGS,
    *functional.BUGS,
    *gradient.BUGS,
    *aligning.BUGS,
    *network.BUGS,
    *loading.BUGS,
    *operations.BUGS,
    *parallel.BUGS,
    *showing.BUGS,
    *sketches.BUGS,
    *using.BUGS,
    *forged.BUGS,
    *refusals.BUGS,
    *floors.BUGS,
]
