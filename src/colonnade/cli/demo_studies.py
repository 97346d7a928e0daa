"""The studies that ``colonnade demo`` runs: each a title and a function from a federation to a result beside the truth.

A new estimator appends one entry to `STUDIES`; `demo` prints them all alike.
"""

from collections.abc import Callable
from dataclasses import dataclass

import colonnade as cn
from colonnade.cli.demo_comparisons import (
    Comparison,
    card,
    clusters,
    components,
    correlations,
    described,
    group_means,
    invented,
    model,
    moment,
    patterns,
    quantiles,
    sampled,
    tightened,
)
from colonnade.datasets.synthetic import Federated
from colonnade.estimation.private_pgm import has_library

__all__ = ["STUDIES", "DemoStudy"]


@dataclass(frozen=True)
class DemoStudy:
    """One study of the demonstration.

    Parameters
    ----------
    title
        What is asked.
    run
        Runs it.
    extra
        The extra of this library that it needs, if that is not installed; otherwise empty.
    """

    title: str
    run: Callable[[Federated, cn.Federation], Comparison]
    extra: str = ""


STUDIES: tuple[DemoStudy, ...] = (
    DemoStudy(
        "Columns of three parties one by one: means, deviations and medians from one release per party",
        described(["bank.age", "telco.minutes", "insurer.premium"], epsilon=0.5),
    ),
    DemoStudy(
        "Quantiles of income at the bank, by the exponential mechanism",
        quantiles("bank.income", [0.1, 0.25, 0.5, 0.75, 0.9], epsilon=0.2),
    ),
    DemoStudy(
        "Patterns across two parties, randomised response, ε for a person",
        patterns(["bank.segment", "telco.plan"], method="response", epsilon=2.0),
    ),
    DemoStudy(
        "Patterns across three parties, randomised response, ε for a person",
        patterns(["bank.segment", "telco.plan", "insurer.product"], method="response", epsilon=3.0),
    ),
    DemoStudy(
        "Patterns across two parties, two columns at one of them, ε for a person's record at a party",
        patterns(["bank.default", "insurer.product", "insurer.smoker"], method="response", epsilon=1.0, unit="party"),
    ),
    DemoStudy(
        "The same two columns as at first, as if they were independent: little noise, and biased where they are not",
        patterns(["bank.segment", "telco.plan"], method="independent", epsilon=0.2),
    ),
    DemoStudy(
        "The same two columns from secret shares: noise of a single count, at a tenth of the first price",
        patterns(["bank.segment", "telco.plan"], epsilon=0.2),
    ),
    DemoStudy(
        "Three parties from secret shares: a fit to the three pair tables",
        patterns(["bank.segment", "telco.plan", "insurer.product"], epsilon=0.5),
    ),
    DemoStudy(
        "Mean premium at the insurer by segment at the bank and plan at the telco: a product of three parties' columns",
        group_means(["bank.segment", "telco.plan"], "insurer.premium", epsilon=0.3, delta=1e-6),
    ),
    DemoStudy(
        "Correlations of four columns at three parties, from one noisy Gram matrix",
        correlations(["bank.age", "bank.income", "telco.minutes", "insurer.risk_score"], epsilon=0.3, delta=1e-6),
    ),
    DemoStudy(
        "Principal components of six columns at three parties, from one noisy Gram matrix",
        components(
            3,
            [
                "bank.age",
                "bank.income",
                "bank.savings",
                "telco.monthly_bill",
                "telco.minutes",
                "insurer.premium",
            ],
            epsilon=0.5,
            delta=1e-6,
        ),
    ),
    DemoStudy(
        "Three groups of people by six columns at three parties: private local centres, weighted by secret-shared pair tables",
        clusters(
            3,
            [
                "bank.age",
                "bank.income",
                "telco.monthly_bill",
                "telco.minutes",
                "insurer.premium",
                "insurer.risk_score",
            ],
            epsilon=0.5,
            delta=1e-6,
        ),
    ),
    DemoStudy(
        "Three groups by four columns at two parties, weighted by sketches under a key that only the two share",
        clusters(
            3,
            ["bank.age", "bank.income", "telco.monthly_bill", "telco.minutes"],
            method="sketch",
            epsilon=0.5,
            delta=1e-6,
        ),
    ),
    DemoStudy(
        "Squares of late payments and claims together, every number perturbed by its holder; ε hides steps of one",
        moment(["telco.late_payments", "insurer.claims"], 2, epsilon=0.5),
    ),
    DemoStudy(
        "Income at the bank from what the telco and the insurer know",
        model(
            lambda: cn.LinearRegression(
                "bank.income", columns=["bank.age", "telco.monthly_bill", "insurer.premium"], epsilon=0.5, delta=1e-6
            ),
            "R²",
        ),
    ),
    DemoStudy(
        "The same at the same price, half of it for narrower bounds: each noise is in proportion to them",
        tightened("bank.income", ["bank.age", "telco.monthly_bill", "insurer.premium"], epsilon=0.5, delta=1e-6),
    ),
    DemoStudy(
        "Default at the bank from columns of all three, by Newton steps: the likeliest coefficients, as near as ε allows",
        model(
            lambda: cn.LogisticRegression(
                "bank.default",
                columns=["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"],
                epsilon=0.5,
                delta=1e-6,
            ),
            "accuracy",
        ),
    ),
    DemoStudy(
        "The same as a scorecard: whole points per bin, and the rate of defaults in each bin of late payments",
        card(
            "bank.default",
            ["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"],
            "telco.late_payments",
        ),
    ),
    DemoStudy(
        "The same at half the price and with δ = 0: Laplace noise on the objective's coefficients",
        model(
            lambda: cn.LogisticRegression(
                "bank.default",
                columns=["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"],
                method="functional",
                epsilon=0.25,
            ),
            "accuracy",
        ),
    ),
    DemoStudy(
        "The same by 120 noisy gradient steps on batches that only the parties know; ε holds against the coordinator",
        model(
            lambda: cn.LogisticRegression(
                "bank.default",
                columns=["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"],
                method=cn.methods.Gradient(steps=120, rate=0.02),
                epsilon=0.5,
                delta=1e-6,
            ),
            "accuracy",
        ),
    ),
    DemoStudy(
        "A synthetic table of six columns at three parties: invented rows, to explore freely",
        invented(
            ["bank.age", "bank.segment", "telco.plan", "telco.minutes", "insurer.product", "insurer.smoker"],
            ["bank.segment", "telco.plan"],
            bins=8,
            epsilon=0.5,
            delta=1e-6,
        ),
        extra="" if has_library() else "synthetic",
    ),
    DemoStudy(
        "NOT PRIVATE, by consent: income again, from 1,000 weighted rows that the three parties drew together (a coreset)",
        sampled("bank.income", ["bank.age", "telco.monthly_bill", "insurer.premium"], size=1_000),
    ),
)
