"""Noise laws: what each one costs and how it is drawn. Local and joint noise alike.

A law is complete before data is touched: its constructor refuses whatever it could not draw, so that the gate may debit the loss
first and draw afterwards. It draws from a `Sampler` that it is given, so knowing a law does not let anybody draw from it.
"""

from fractions import Fraction
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.accounting import Loss
from colonnade.privacy.laws.sampler import Sampler

__all__ = ["Description", "EvenLaw", "JointLaw", "Law", "Mechanism", "NoiseFamily", "Sampler"]

NoiseFamily = Literal["gaussian", "laplace", "skellam"]
"""Which noise the shares of a joint law add up to."""


class Description(NamedTuple):
    """A law in words, with its numbers in them, for reports."""

    sensitivity: str
    scale: str


@runtime_checkable
class Law(Protocol):
    """What every noise law has: a name and a description. What it costs and how it is drawn differs, see below."""

    @property
    def name(self) -> str:
        """What statements call it."""

    def describe(self) -> Description:
        """Return sensitivity and scale in words."""


@runtime_checkable
class Mechanism(Law, Protocol):
    """A law by which one party alone perturbs what it has computed."""

    @property
    def loss(self) -> Loss:
        """What one release costs."""

    def release(self, nonprivate: NDArray[Any], sampler: Sampler) -> NDArray[Any]:
        """Perturb."""


@runtime_checkable
class JointLaw(Law, Protocol):
    """A law whose noise several parties add in shares, so that no one of them can take it off."""

    @property
    def family(self) -> str:
        """The family of the noise: ``"gaussian"``, ``"laplace"`` or ``"skellam"``."""

    @property
    def share(self) -> Fraction:
        """The parameter of one party's share: a variance, or of Laplace noise a scale."""

    @property
    def opened_variance(self) -> float:
        """The variance of the noisiest opened entry: all parties' shares."""

    def loss(self, *, colluders: int = 0, party: str | None = None) -> Loss | None:
        """Return the loss to an observer who knows ``colluders`` parties' shares; ``None`` where nothing is proved.

        Of a person's whole record, or of their record at one party.
        """

    def replaced_loss(self, *, colluders: int = 0) -> Loss | None:
        """Return the loss if a record is replaced by another instead of by nothing."""


@runtime_checkable
class EvenLaw(JointLaw, Protocol):
    """A joint law whose shares need nothing but their number."""

    def draw_share(self, entries: int, sampler: Sampler) -> NDArray[np.int64]:
        """Draw this party's share of the noise, one number for each entry between parties."""
