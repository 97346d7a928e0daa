"""Which tables count as neighbours, and what a promise is about.

The ledger has one relation, **zero-out**: one person's record is replaced by a null record that contributes nothing.
The number of people is public and rows are aligned, so this is the natural reading of "the person might as well not be
in it", and for additive statistics its sensitivity is that of adding or removing a row.

===============  ====================================================================================================
relation         what differs
===============  ====================================================================================================
zero-out         one whole record, at all parties, against a null record (the ledger; dp-accounting's
                 ``REPLACE_SPECIAL``)
replace          one whole record, at all parties, against any other record
party-block      one party's part of one record, against any other values or null
event            one value of one person at one party, by at most a stated amount
===============  ====================================================================================================

A promise has a *unit*: ``"person"`` protects the whole record at all parties, ``"party"`` one party's part of it.

Which bound is proved for which relation (docs/proofs/neighbours-and-losses.md):

* randomised response: every change of one party's category, null included. So it holds for party-block, and the
  composition over parties holds for replace and zero-out alike, at no extra cost;
* discrete Laplace and Gaussian noise: whatever relation the sensitivity was computed for; in this library zero-out;
* sub-sampling and sketches: zero-out only.

A replacement is two steps of zero-out: twice a pure ε, four times a ρ. Laws that do better have a ``replaced_loss``.
"""

from typing import Literal, get_args

from colonnade.errors import BadInput
from colonnade.privacy.price import Price

__all__ = ["UNITS", "Unit", "party_price", "valid_unit"]

Unit = Literal["person", "party"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""What a promise is about: a person's whole record, or one party's part of it."""


def valid_unit(unit: object) -> Unit:
    """Return the unit, or refuse what is none."""
    for known in UNITS:
        if unit == known:
            return known
    raise BadInput("unit is 'person' or 'party'.", remedy='For example unit="person".')


def party_price(price: Price, parties: int, unit: Unit) -> Price:
    """Return what each of several parties may spend so that the promise holds for ``unit``.

    For a local method: the parties' randomness is independent, so a person's loss is the sum of the parties' losses.

    Examples
    --------
    >>> party_price(Price.of(1.0), 4, "person").epsilon, party_price(Price.of(1.0), 4, "party").epsilon
    (0.25, 1.0)
    """
    if parties < 1:
        raise BadInput("There is at least one party.")
    return price.share(parties) if valid_unit(unit) == "person" else price
