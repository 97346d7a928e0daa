"""One release of second moments, on which several estimators may be fitted: the work of `Federation.moments`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from colonnade.coordinator.findings import MomentsRelease
from colonnade.coordinator.protocols.moment_releases import GramRelease, UnionRelease
from colonnade.privacy.accounting import Price, Unit
from colonnade.privacy.laws import NoiseFamily
from colonnade.schema.features import with_indicators
from colonnade.steps.registry import STUDIES

if TYPE_CHECKING:
    from colonnade.coordinator.federation import Federation


def release_moments(
    federation: "Federation",
    columns: Sequence[str] | None,
    price: Price,
    *,
    unit: Unit,
    signed: Sequence[str],
    noise: NoiseFamily,
    scale: int | None,
    row_norms: Mapping[str, float] | None,
    repeat: int,
) -> MomentsRelease:
    """Release one noisy Gram matrix; see `Federation.moments`."""
    described = federation.describe(with_indicators(columns, federation.describe()))
    kind = UnionRelease if federation.union else GramRelease
    algorithm = kind(described, price, tuple(signed), noise, scale, row_norms)
    plan = federation.plan(
        algorithm,
        task=STUDIES["PCA"],
        method="secure",
        price=algorithm.price,
        unit=unit,
        parameters={},  # equal releases are one release, whatever is then made of them
        repeat=repeat,
    )
    findings = federation.study(algorithm, plan, title="moments(method='secure')")
    return MomentsRelease(findings.value, described, findings)
