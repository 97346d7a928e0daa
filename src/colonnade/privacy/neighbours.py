"""Which tables count as neighbours: the relations, what each bound is proved for, and how to get from one to another.

The ledger has one relation, **zero-out**: one person's record is replaced by a null record that contributes nothing.
The number of people is public and rows are aligned, so this is the natural reading of "the person might as well not be
in it", and for additive statistics its sensitivity is that of adding or removing a row.

=================  ==================================================================================================
relation           what differs
=================  ==================================================================================================
``ZERO_OUT``       one whole record, at all parties, against a null record (the ledger; dp-accounting's
                   ``REPLACE_SPECIAL``)
``REPLACE``        one whole record, at all parties, against any other record
``PARTY_BLOCK``    one party's part of one record, against any other values or null
``EVENT``          one value of one person at one party, by at most a stated amount
=================  ==================================================================================================

A promise has a *unit*: ``"person"`` protects the whole record at all parties, ``"party"`` one party's part of it.

Which bound is proved for which relation:

* randomised response: every change of one party's category, null included. So it holds for ``PARTY_BLOCK``, and the
  composition over parties holds for ``REPLACE`` and ``ZERO_OUT`` alike, at no extra cost;
* discrete Laplace and Gaussian noise: whatever relation the sensitivity was computed for; in this library ``ZERO_OUT``;
* sub-sampling and sketches: ``ZERO_OUT`` only.
"""

from enum import Enum
from fractions import Fraction
from typing import Literal, get_args

from colonnade.errors import BadInput
from colonnade.privacy.price import Price

__all__ = ["UNITS", "Neighbours", "Unit", "party_price", "replaced_nano", "replaced_rho", "valid_unit"]

Unit = Literal["person", "party"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""What a promise is about: a person's whole record, or one party's part of it."""


class Neighbours(Enum):
    """A neighbouring relation. The value is what statements print.

    Examples
    --------
    >>> Neighbours.ZERO_OUT.value
    'zero-out'
    >>> Neighbours.PARTY_BLOCK.unit
    'party'
    """

    ZERO_OUT = "zero-out"
    REPLACE = "replace"
    PARTY_BLOCK = "party-block"
    EVENT = "event"

    @property
    def unit(self) -> Unit:
        """The largest unit that the relation protects (an event is less than a party's part of a record)."""
        return "person" if self in (Neighbours.ZERO_OUT, Neighbours.REPLACE) else "party"

    @property
    def meaning(self) -> str:
        """One sentence for a statement."""
        return _MEANING[self]


_MEANING = {
    Neighbours.ZERO_OUT: "One person's whole record is replaced by a record that contributes nothing.",
    Neighbours.REPLACE: "One person's whole record is replaced by any other record.",
    Neighbours.PARTY_BLOCK: "One party's part of one person's record is replaced by any other values.",
    Neighbours.EVENT: "One value of one person at one party changes by at most the stated amount.",
}


def valid_unit(unit: object) -> Unit:
    """Return the unit, or refuse what is none."""
    for known in UNITS:
        if unit == known:
            return known
    raise BadInput("unit is 'person' or 'party'.", remedy='For example unit="person".')


def replaced_nano(nano: int) -> int:
    """Return the pure ε under replacement of a mechanism that is ε-DP under zero-out.

    A replacement is two steps of zero-out (the record to null, null to the other record), and pure losses add.
    """
    return 2 * nano


def replaced_rho(rho: Fraction) -> Fraction:
    """Return the ρ under replacement of a mechanism that is ρ-zCDP under zero-out.

    Group privacy of zCDP is quadratic: two steps cost four times ρ. A Gram matrix does better, see
    `colonnade.privacy.sensitivity.gram_l2_squared`.
    """
    return 4 * rho


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
