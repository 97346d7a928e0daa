"""The studies that ``colonnade demo`` runs: each a question and a function from a federation to a result beside the truth.

`STORY` is what everybody sees. `MORE` has other ways to ask, which ``colonnade demo --all`` shows too. A new estimator
appends one entry to one of them.
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

__all__ = ["MORE", "STORY", "DemoStudy"]


@dataclass(frozen=True)
class DemoStudy:
    """One study of the demonstration.

    Parameters
    ----------
    question
        What somebody at one of the organisations wants to know.
    title
        What is done, in a sentence.
    run
        Does it.
    extra
        The extra of this library that it needs, if that is not installed; otherwise empty.
    chart
        Whether to draw the estimates as bars under the table.
    slow
        Whether ``--quick`` leaves it out.
    """

    question: str
    title: str
    run: Callable[[Federated, cn.Federation], Comparison]
    extra: str = ""
    chart: bool = False
    slow: bool = False


DEFAULT_COLUMNS = ["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"]

STORY: tuple[DemoStudy, ...] = (
    DemoStudy(
        "What do our columns look like?",
        "Each organisation tells noisy figures of its own columns.",
        described(["bank.age", "telco.minutes"], epsilon=0.2),
    ),
    DemoStudy(
        "Which customers of the bank have which phone plan?",
        "The bank holds one column and the telco the other. Counts come from secret shares, with the noise of a single count.",
        patterns(["bank.segment", "telco.plan"], epsilon=0.2),
        chart=True,
    ),
    DemoStudy(
        "What do they pay for insurance, by segment and plan?",
        "Three organisations hold the three columns. One opening gives every count and every mean.",
        group_means(["bank.segment", "telco.plan"], "insurer.premium", epsilon=0.3, delta=1e-6),
    ),
    DemoStudy(
        "What goes together?",
        "Correlations across all three, from one noisy matrix of products.",
        correlations(["bank.age", "bank.income", "telco.minutes", "insurer.risk_score"], epsilon=0.3, delta=1e-6),
    ),
    DemoStudy(
        "Are there kinds of people?",
        "k-means over six columns at three organisations. Shown is the first of three groups.",
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
        slow=True,
    ),
    DemoStudy(
        "What explains income?",
        "Linear regression on columns of all three. True is what scikit-learn finds on the joined table.",
        model(
            lambda: cn.LinearRegression(
                "bank.income", columns=["bank.age", "telco.monthly_bill", "insurer.premium"], epsilon=0.5, delta=1e-6
            ),
            "R²",
        ),
    ),
    DemoStudy(
        "Who will default on a loan?",
        "Logistic regression by Newton steps on secret shares. True is the maximum-likelihood estimate on the joined table.",
        model(
            lambda: cn.LogisticRegression("bank.default", columns=DEFAULT_COLUMNS, epsilon=0.5, delta=1e-6), "accuracy"
        ),
    ),
    DemoStudy(
        "Can a credit committee read that?",
        "A scorecard: whole points per bin, here with the rate of defaults by late payments.",
        card("bank.default", DEFAULT_COLUMNS, "telco.late_payments"),
        slow=True,
    ),
    DemoStudy(
        "May I have rows to explore?",
        "Invented rows with the same tables of pairs, from six columns at three organisations.",
        invented(
            ["bank.age", "bank.segment", "telco.plan", "telco.minutes", "insurer.product", "insurer.smoker"],
            ["bank.segment", "telco.plan"],
            bins=8,
            epsilon=0.5,
            delta=1e-6,
        ),
        extra="" if has_library() else "synthetic",
        slow=True,
    ),
)

MORE: tuple[DemoStudy, ...] = (
    DemoStudy(
        "What are the quantiles of income?",
        "The exponential mechanism, at the bank.",
        quantiles("bank.income", [0.1, 0.25, 0.5, 0.75, 0.9], epsilon=0.2),
    ),
    DemoStudy(
        "Which plans, if nobody computes for anybody?",
        "Randomised response: each organisation perturbs its own column. It takes ten times the price of secret shares.",
        patterns(["bank.segment", "telco.plan"], method="response", epsilon=2.0),
    ),
    DemoStudy(
        "And with two columns at one of them?",
        "Randomised response again, with ε for a person's record at one organisation.",
        patterns(["bank.default", "insurer.product", "insurer.smoker"], method="response", epsilon=1.0, unit="party"),
    ),
    DemoStudy(
        "What if the columns had nothing to do with each other?",
        "Counts as if the two were independent: little noise, and biased where they are not.",
        patterns(["bank.segment", "telco.plan"], method="independent", epsilon=0.2),
    ),
    DemoStudy(
        "And three columns at three organisations?",
        "A fit to the three tables of pairs, from secret shares.",
        patterns(["bank.segment", "telco.plan", "insurer.product"], epsilon=0.5),
    ),
    DemoStudy(
        "What few directions carry most of the variation?",
        "Principal components of six columns, from one noisy matrix of products.",
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
        "Kinds of people again, without compute nodes?",
        "k-means weighted by sketches, under a key that only the two organisations share.",
        clusters(
            3,
            ["bank.age", "bank.income", "telco.monthly_bill", "telco.minutes"],
            method="sketch",
            epsilon=0.5,
            delta=1e-6,
        ),
    ),
    DemoStudy(
        "What is the second moment of late payments and claims together?",
        "Every number is perturbed by its holder; ε hides steps of one.",
        moment(["telco.late_payments", "insurer.claims"], 2, epsilon=0.5),
    ),
    DemoStudy(
        "Income again, with tighter bounds?",
        "Half of the price goes into narrower bounds; noise is in proportion to them.",
        tightened("bank.income", ["bank.age", "telco.monthly_bill", "insurer.premium"], epsilon=0.5, delta=1e-6),
    ),
    DemoStudy(
        "Default again, with δ = 0?",
        "The functional mechanism: Laplace noise on the objective's coefficients. It fits a surrogate of the likelihood.",
        model(
            lambda: cn.LogisticRegression("bank.default", columns=DEFAULT_COLUMNS, method="functional", epsilon=0.25),
            "accuracy",
        ),
    ),
    DemoStudy(
        "Default again, by gradient descent?",
        "120 noisy steps on batches that only the parties know; ε holds against the coordinator.",
        model(
            lambda: cn.LogisticRegression(
                "bank.default",
                columns=DEFAULT_COLUMNS,
                method=cn.methods.Gradient(steps=120, rate=0.02),
                epsilon=0.5,
                delta=1e-6,
            ),
            "accuracy",
        ),
    ),
    DemoStudy(
        "And if everybody consents to something that is NOT PRIVATE?",
        "Income from 1,000 weighted rows that the three organisations drew together: a coreset.",
        sampled("bank.income", ["bank.age", "telco.monthly_bill", "insurer.premium"], size=1_000),
    ),
)
