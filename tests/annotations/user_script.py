"""A study as an analyst would write it, with every value annotated: `test_user_script.py` checks it with mypy, and runs it."""

# ruff: noqa: T201
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

import colonnade as cn


def open_federation(folder: Path) -> cn.Federation:
    """Two organisations with their own files, declarations, policies and ledgers."""
    people: npt.NDArray[np.int64] = np.arange(3_000)
    rng = np.random.default_rng(5)
    bank_file, telco_file = folder / "bank.csv", folder / "telco.csv"
    income = rng.uniform(0, 100, 3_000)
    segment = np.where(income > 50, "gold", "basic")
    pd.DataFrame({"id": people, "income": income, "segment": segment}).to_csv(bank_file, index=False)
    bill = income / 2 + rng.uniform(0, 50, 3_000)
    plan = np.where(bill > 60, "premium", "prepaid")
    pd.DataFrame({"id": people, "bill": bill, "plan": plan}).to_csv(telco_file, index=False)
    bank = cn.Party(
        bank_file, schema=cn.Schema(income=cn.Numeric(0, 100), segment=cn.Category(["basic", "gold"], missing="level"))
    )
    telco = cn.Party(
        telco_file, schema=cn.Schema(bill=cn.Numeric(0, 100, missing=0), plan=cn.Category(["prepaid", "premium"]))
    )
    check: cn.TableCheck = bank.check()
    assert check.rows == 3_000
    return cn.Federation.simulate(
        {"bank": bank, "telco": telco},
        id="id",
        budget=cn.Budget(epsilon=60.0, delta=1e-5),
        compute_nodes=["notary"],
        policies={"bank": cn.Policy(), "telco": cn.Policy(approve_above=50.0)},
        ledger_dir=folder / "ledgers",
    )


def counted(federation: cn.Federation) -> pd.Series:
    """Count, and read price, error and statement."""
    study = cn.PatternCount(["bank.segment", "telco.plan"], epsilon=1.0, delta=1e-6)
    preview = study.preview(federation)
    expected: float | None = preview.expected_error
    prices: pd.DataFrame = preview.table()
    assert expected is not None
    assert list(prices.index) == ["bank", "telco"]
    study = study.fit(federation)
    statement: cn.PrivacyStatement = study.privacy_
    epsilon: float = statement.epsilon(observer="coordinator", unit="person")
    assert epsilon <= 1.0
    receipt: str = study.receipt_
    assert receipt
    return study.counts_


def modelled(federation: cn.Federation, folder: Path) -> cn.LinearRegression:
    """Fit, read a summary, hold out, evaluate, predict, save and load."""
    fit_on, held_out = federation.split(test=0.25)
    model = cn.LinearRegression(
        "telco.bill", columns=["bank.income"], method=cn.methods.Secure(), epsilon=4.0, delta=1e-6
    )
    model = model.fit(fit_on)
    summary: pd.DataFrame = model.summary().frame
    intervals: pd.DataFrame = model.conf_int(0.9)
    assert list(summary.index) == list(intervals.index)
    print(model.evaluate(held_out, epsilon=4.0, delta=1e-6).table())
    model.save(folder / "model.json")
    again = cn.load(folder / "model.json")
    assert isinstance(again, cn.LinearRegression)
    rows: pd.DataFrame = cn.named(bank=pd.DataFrame({"income": [10.0, 90.0]}))
    predicted: npt.NDArray[np.float64] = again.predict(rows)
    assert predicted[0] < predicted[1]
    return again


def main(folder: Path) -> None:
    """Run everything, and see the cap refuse."""
    with open_federation(folder) as federation:
        columns: list[str] = list(federation.describe())
        print(columns, counted(federation).sum())
        print(modelled(federation, folder).table())
        described: pd.DataFrame = cn.Describe(["bank.income"], epsilon=1.0).fit(federation).table()
        print(described)
        groups = cn.KMeans(2, columns=["bank.income", "telco.bill"], epsilon=4.0, delta=1e-6).fit(federation)
        centres: npt.NDArray[np.float64] = groups.cluster_centers_
        print(centres.shape)
        budget: pd.DataFrame = federation.budget()
        left: float = float(federation.budget("bank")["remaining"])
        print(budget[["spent", "remaining"]], left)
        try:
            cn.PCA(1, epsilon=100.0, delta=1e-6).fit(federation)
        except cn.BudgetExceeded as refusal:
            code: str = refusal.code
            print(code, refusal.remedy)


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
