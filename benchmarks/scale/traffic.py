"""Bytes of a regression of 200,000 people × 502 coded columns over four parties, as the coordinator counts them.

Every byte that the coordinator sends or receives is counted, so a share that is relayed counts twice. The lower bound is that of
Shamir sharing among 2t + 1 = 3 nodes through a relay: a value of an owner that computes reaches one other node as elements (one
share is its own, one a seed), a value of an owner that does not reaches two; an element cannot be shorter than the bound of an
opened integer. Where members have direct links a share travels once, and past the coordinator: what goes directly and what is
left is the preview's forecast.
"""

import math
from collections.abc import Iterator

from benchmarks.frame import Claim, Part, Row, Table, below
from benchmarks.gpu.run import table

import colonnade as cn
from colonnade.steps.kind import read_joint

PEOPLE = 200_000
BEFORE, BAR = 2.85e9, 0.5
"""Bytes of the same when four nodes computed and an element took six bytes or more; and what share of it they may be."""


def measured(_run: int, people: int) -> Iterator[Row]:
    """Fit the regression, and set its bytes beside the bound."""
    budget = cn.Budget(epsilon=10.0, delta=1e-5)
    with cn.Federation.simulate(table(people), id="id", budget=budget, test_key=b"k" * 32) as federation:
        federation._driver.linked = frozenset(federation.parties)
        links = cn.LinearRegression("shop.y", epsilon=1.0, delta=1e-6).preview(federation).traffic
        model = cn.LinearRegression("shop.y", epsilon=1.0, delta=1e-6).fit(federation)
    plan, counted = model.plan_, model.transcript_.bytes
    name = next(step.name for step in plan.steps if step.kind == "gram")
    joint = read_joint(plan, name)
    shares = sum(
        people * width * (len(joint.nodes) - joint.threshold - (owner in joint.nodes))
        for owner, width in zip(joint.owners, joint.widths, strict=True)
    )
    bits = math.log2(2 * joint.bound + 1)
    least = 2 * shares * bits / 8
    values = {
        "GB": counted / 1e9,
        "lower bound, GB": least / 1e9,
        "ratio": counted / least,
        "before, GB": BEFORE / 1e9 * people / PEOPLE,
        "of before": counted / (BEFORE * people / PEOPLE),
        "bits of an element": joint.arithmetic.element_bits,
        "bits of the bound": bits,
        "relayed with links, GB": links.relayed / 1e9,
        "direct, GB": links.direct / 1e9,
        "direct lower bound, GB": shares * bits / 8e9,
    }
    yield Row({"people": people, "columns": sum(joint.widths)}, values)


PARTS = [Part("traffic", measured, [{"people": PEOPLE}], 1, 1.0, quick=[{"people": 10_000}], exact=True, alone=True)]
SHOWN = [
    "## Bytes of a regression",
    Table(
        "traffic",
        {
            "GB": "GB",
            "lower bound, GB": "lower bound, GB",
            "ratio": "× the bound",
            "before, GB": "with four nodes, GB",
            "bits of an element": "bits of an element",
            "bits of the bound": "bits of the bound",
            "relayed with links, GB": "with direct links: relayed, GB",
            "direct, GB": "and direct, GB",
            "direct lower bound, GB": "its lower bound, GB",
        },
        {"people": "people", "columns": "columns"},
        costs=True,
    ),
]
CLAIMS = [
    Claim(
        "bytes of a regression of 502 columns, beside those with four nodes (share)",
        f"at most {BAR:g}",
        lambda found: [below(samples["of before"], BAR) for _, samples in found.rows("traffic")],
        "the issue",
    )
]
