"""``colonnade audit NAME``: try to tell neighbouring inputs apart by what a mechanism releases.

The mechanism is audited beside a control that has about half the noise and claims as much, so that one can see what the
audit would have caught; ``shared-keys`` attacks the sketches of clusters, with the composition of paper 001 for a control.
Exit status 1 if the mechanism's claim is refuted, or if the control's is not.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput

if TYPE_CHECKING:
    from colonnade.audit.distinguish import Finding

__all__ = ["ATTACKS", "MECHANISMS", "audit"]

CATEGORIES = 5


def audit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="response, laplace, gaussian or shared-keys.")],
    epsilon: Annotated[float, typer.Option(help="The price of one release.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of the price, for gaussian.")] = 1e-5,
    samples: Annotated[int, typer.Option(min=1_000, help="Outputs a side.")] = 1_000_000,
    alpha: Annotated[
        float, typer.Option(min=1e-15, max=0.1, help="The probability with which a sound mechanism may be convicted.")
    ] = 1e-6,
) -> None:
    """Audit a mechanism: a proved lower bound on its true ε, beside the ε that it claims."""
    if name not in {**MECHANISMS, **ATTACKS}:
        known = ", ".join((*MECHANISMS, *ATTACKS))
        raise typer.BadParameter(f"there is no mechanism {name!r}; there are {known}.", param_hint="NAME")
    if name in ATTACKS:
        found, would_be_found = ATTACKS[name](epsilon, delta, samples, alpha)
        words = "The control is paper 001's own composition"
    else:
        mechanism = MECHANISMS[name](epsilon, delta)
        control = _Claiming(MECHANISMS[name](2 * epsilon, delta), mechanism.loss)
        found, would_be_found = (_finding(one, samples, alpha) for one in (mechanism, control))
        words = "The control has about half the noise"
    screen.line(f"{name:<11} {found}")
    screen.line(f"{'control':<11} {would_be_found}")
    screen.line(f"An audit can convict, never acquit. {words} and makes the same claim.")
    if not would_be_found.caught:
        screen.line("The control was not caught, so this audit shows nothing: take more --samples.")
    if found.caught or not would_be_found.caught:
        raise typer.Exit(1)


def _finding(mechanism: Any, samples: int, alpha: float) -> "Finding":
    """Audit a mechanism on the pair of neighbouring inputs that is hardest to hide."""
    from colonnade.audit.distinguish import audit as convict
    from colonnade.privacy.randomness import SystemRandomness

    return convict(mechanism, 0, 1, randomness=SystemRandomness(), samples=samples, alpha=alpha)


class _Claiming:
    """A mechanism that claims another loss than it has."""

    def __init__(self, inner: Any, loss: Any) -> None:
        self.name, self.loss, self.release = inner.name, loss, inner.release


def _response(epsilon: float, _: float) -> Any:
    from colonnade.privacy.laws.channel import best_channel
    from colonnade.privacy.laws.response import RandomizedResponse
    from colonnade.privacy.price import Price

    return RandomizedResponse(best_channel(CATEGORIES, Price.of(epsilon)))


def _laplace(epsilon: float, _: float) -> Any:
    from colonnade.privacy.laws.laplace import DiscreteLaplace
    from colonnade.privacy.price import Price

    return DiscreteLaplace(Price.of(epsilon), 1)


def _gaussian(epsilon: float, delta: float) -> Any:
    from colonnade.privacy.laws.gaussian import DiscreteGaussian
    from colonnade.privacy.price import Price

    if not delta > 0:
        raise BadInput("Gaussian noise needs a positive delta.", remedy="For example --delta 1e-5.")
    return DiscreteGaussian(Price.of(epsilon, delta), 1)


def _shared_keys(epsilon: float, delta: float, samples: int, alpha: float) -> "tuple[Finding, Finding]":
    """Look for maxima that two parties have in common; one release of sketches counts for fifty samples."""
    from colonnade.audit.shared_keys import MendedSketches, PaperSketches, attack
    from colonnade.privacy.price import Price
    from colonnade.privacy.randomness import SystemRandomness

    price = Price.of(epsilon, delta)
    if not delta > 0:
        raise BadInput("Sketches need a positive delta.", remedy="For example --delta 1e-5.")
    ours, theirs = (
        attack(one, randomness=SystemRandomness(), samples=max(samples // 50, 1_000), alpha=alpha)
        for one in (MendedSketches(price), PaperSketches(price))
    )
    return ours, theirs


ATTACKS = {"shared-keys": _shared_keys}

MECHANISMS = {"response": _response, "laplace": _laplace, "gaussian": _gaussian}
