"""The end of the demonstration: people are held out, a model is fitted, measured on them, saved, and scores them for the bank."""

import tempfile
from pathlib import Path

import pandas as pd

from colonnade.cli import screen
from colonnade.datasets.synthetic import Federated
from colonnade.errors import NonPrivateRefused
from colonnade.estimators.evaluation import Evaluation
from colonnade.estimators.loading import load
from colonnade.estimators.logistic_regression import LogisticRegression
from colonnade.party.policy import Policy
from colonnade.privacy.price import Budget

__all__ = ["show_round_trip"]

COLUMNS = ["bank.age", "bank.income", "telco.late_payments", "insurer.risk_score", "insurer.smoker"]


def show_round_trip(data: Federated) -> None:
    """Split, fit, evaluate, save, load, predict; parties with policies of their own, which allow scores for the bank alone."""
    screen.heading("Split, fit, evaluate, predict")
    policies = {name: Policy(predictions={"LogisticRegression": ["bank"]}) for name in data}
    with data.federation(budget=Budget(epsilon=2.0, delta=1e-6), policies=policies) as federation:
        train, test = federation.split(test=0.2)
        screen.line(f"{train.people:,} people to fit on, {test.people:,} held out; the coordinator does not know who.")
        model = LogisticRegression("bank.default", columns=COLUMNS, epsilon=1.0, delta=1e-6).fit(train)
        found = model.evaluate(test, epsilon=0.5)
        with tempfile.TemporaryDirectory(prefix="colonnade-demo-") as folder:
            model.save(Path(folder, "model.json"))
            model = load(Path(folder, "model.json"))
        delivery = model.predict(test, to="bank")
        told = delivery.read()
        people = data.joined().loc[told.index]
        screen.print_frame(_beside_the_truth(found, model, people))
        screen.line(f"receipt   {found.receipt_}")
        same = bool((told == model.to_sklearn().predict(people)).all())
        screen.line(
            f"the bank was told {len(told):,} classes, {'all' if same else 'not all'} as scikit-learn has them."
        )
        screen.line(f"receipt   {delivery.receipt_}")
        try:
            model.predict(test, to="telco")
        except NonPrivateRefused as error:
            screen.line(f"the same for the telco: refused, {error.code}.")


def _beside_the_truth(found: Evaluation, model: LogisticRegression, people: pd.DataFrame) -> pd.DataFrame:
    from sklearn.metrics import brier_score_loss, roc_auc_score

    truth, chances = people[model.target] == model.classes_[1], model.predict_proba(people)[:, 1]
    exact = {
        "accuracy": model.score(people, people[model.target]),
        "auc": roc_auc_score(truth, chances),
        "brier": brier_score_loss(truth, chances),
    }
    table = found.table()[["value", "low", "high"]].rename(columns={"value": "estimate"})
    table.insert(0, "true", pd.Series(exact))
    return table
