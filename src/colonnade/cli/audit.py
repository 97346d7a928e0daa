"""``colonnade audit NAME``: try to tell neighbouring inputs apart by what a mechanism releases.

The mechanism is audited beside a control that has about half the noise and claims as much, so that one can see what the
audit would have caught. Exit status 1 if the mechanism's claim is refuted, or if the control's is not.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput

if TYPE_CHECKING:
    from colonnade.audit.distinguish import Finding

__all__ = ["MECHANISMS", "audit"]

CATEGORIES = 5


def audit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="response, laplace or gaussian.")],
    epsilon: Annotated[float, typer.Option(help="The price of one release.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Of the price, for gaussian.")] = 1e-5,
    samples: Annotated[int, typer.Option(min=1_000, help="Outputs a side.")] = 1_000_000,
    alpha: Annotated[
        float, typer.Option(min=1e-15, max=0.1, help="The probability with which a sound mechanism may be convicted.")
    ] = 1e-6,
) -> None:
    """Audit a mechanism: a proved lower bound on its true ε, beside the ε that it claims."""
    if name not in MECHANISMS:
        raise typer.BadParameter(
            f"there is no mechanism {name!r}; there are {', '.join(MECHANISMS)}.", param_hint="NAME"
        )
    mechanism = MECHANISMS[name](epsilon, delta)
    control = _Claiming(MECHANISMS[name](2 * epsilon, delta), mechanism.loss)
    found, would_be_found = (_finding(one, samples, alpha) for one in (mechanism, control))
    screen.line(f"{name:<9} {found}")
    screen.line(f"control   {would_be_found}")
    screen.line("An audit can convict, never acquit. The control has about half the noise and makes the same claim.")
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
    from colonnade.privacy.channel import best_channel
    from colonnade.privacy.mechanisms.response import RandomizedResponse
    from colonnade.privacy.price import Price

    return RandomizedResponse(best_channel(CATEGORIES, Price.of(epsilon)))


def _laplace(epsilon: float, _: float) -> Any:
    from colonnade.privacy.mechanisms.laplace import DiscreteLaplace
    from colonnade.privacy.price import Price

    return DiscreteLaplace(Price.of(epsilon), 1)


def _gaussian(epsilon: float, delta: float) -> Any:
    from colonnade.privacy.mechanisms.gaussian import DiscreteGaussian
    from colonnade.privacy.price import Price

    if not delta > 0:
        raise BadInput("Gaussian noise needs a positive delta.", remedy="For example --delta 1e-5.")
    return DiscreteGaussian(Price.of(epsilon, delta), 1)


MECHANISMS = {"response": _response, "laplace": _laplace, "gaussian": _gaussian}
