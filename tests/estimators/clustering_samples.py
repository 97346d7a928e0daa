"""Federations of separated groups, for tests of clustering."""

import numpy as np
import pandas as pd

import colonnade as cn
from tests import kit
from tests.federations import TEST_KEY

BOUNDS = (-10.0, 30.0)


def groups(name: str, *, people: int, width: int, components: int = 4, spread: float = 1.5) -> np.ndarray:
    """Points around separated centres, in own units."""
    rng = kit.generator(name)
    low, high = BOUNDS
    means = rng.uniform(low + 4, high - 4, (components, width))
    points = means[rng.integers(components, size=people)] + spread * rng.standard_normal((people, width))
    return np.clip(points, low, high)


def split(points: np.ndarray, parties: int) -> dict[str, pd.DataFrame]:
    """Columns dealt out in turn; party j holds columns j, j + S, …"""
    frames = {}
    for party in range(parties):
        own = range(party, points.shape[1], parties)
        frame = pd.DataFrame({f"x{column}": points[:, column] for column in own})
        frames[f"party{party}"] = frame.assign(id=np.arange(len(points)))
    return frames


def federated(
    frames: dict[str, pd.DataFrame], *, epsilon: float = 100.0, delta: float = 1e-4, test_key: bytes | None = TEST_KEY
) -> cn.Federation:
    parties = {
        name: cn.Party(
            frame, schema=cn.Schema({column: cn.Numeric(*BOUNDS) for column in frame.columns if column != "id"})
        )
        for name, frame in frames.items()
    }
    return cn.Federation.simulate(parties, id="id", budget=cn.Budget(epsilon=epsilon, delta=delta), test_key=test_key)


def joined(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    parts = [frame.set_index("id").add_prefix(f"{name}.") for name, frame in frames.items()]
    return pd.concat(parts, axis=1)


def coded(points: np.ndarray) -> np.ndarray:
    low, high = BOUNDS
    return (np.asarray(points) - (low + high) / 2) / ((high - low) / 2)


def loss(points: np.ndarray, centres: np.ndarray) -> float:
    """Mean squared distance to the nearest centre, in coded columns."""
    return float(((coded(points)[:, None] - coded(centres)) ** 2).sum(axis=2).min(axis=1).mean())
