"""What a federation shows to users. Whatever plans, quotes and runs studies belongs to its driver."""

from tests.federations import federation

METHODS = {
    *("simulate", "connect", "close"),
    *("people", "describe", "budget"),
    *("align", "split", "read_as", "tightened"),
    *("asking", "moments"),
}
ATTRIBUTES = {"parties", "aligned_", "tightened_"}


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_a_federation_has_a_dozen_public_members():
    with federation(50) as f:
        assert len(METHODS) == 12
        assert public(dir(type(f))) == METHODS
        assert public(vars(f)) == ATTRIBUTES  # plain facts: who takes part, and the records of what was agreed


def test_a_federation_that_reads_its_columns_otherwise_has_the_same_parties_and_ledgers():
    with federation(50) as f:
        asked = f.asking(title="Churn")
        assert asked.parties == f.parties
        assert asked._driver.transport is f._driver.transport
        assert (asked._driver.words.title, f._driver.words.title) == ("Churn", "")
