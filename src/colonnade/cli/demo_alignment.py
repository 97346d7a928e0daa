"""The demonstration's alignment: who is in every list, without handing over the lists; on a sample, to be quick."""

from typing import Any

import pandas as pd

from colonnade.cli import screen

__all__ = ["show_alignment"]

SAMPLE = 1_500
EPSILON = 0.5


def show_alignment(data: Any) -> None:
    """Align a part of every organisation's rows, and show what each member has learned beside the truth."""
    import colonnade as cn

    screen.heading("Who is in every list, without handing over the lists")
    frames = {name: one.frame.head(SAMPLE) for name, one in data.items()}
    parties = {name: cn.Party(frames[name], schema=one.schema) for name, one in data.items()}
    common = set.intersection(*(set(frame[data.id]) for frame in frames.values()))
    budget = cn.Budget(epsilon=1.0)
    with cn.Federation.simulate(parties, id=data.id, budget=budget, aligned=False) as federation:
        federation.align(epsilon=EPSILON)
        assert federation.aligned_ is not None  # it was just aligned
        learned = {
            **dict.fromkeys(parties, "which of its own ids are in every list, and nothing about its other ids"),
            "coordinator": f"{federation.people:,} people, give or take discrete Laplace noise (truly {len(common):,})",
        }
        screen.print_frame(pd.Series(learned, name="what it learned").to_frame())
        screen.line("charged   " + ", ".join(f"{party} ε={EPSILON:g}" for party in parties))
        screen.line(f"receipt   {federation.aligned_.receipt}")
