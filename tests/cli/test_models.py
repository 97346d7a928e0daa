"""``colonnade run --models``, ``colonnade evaluate`` and ``colonnade predict``: the round trip of a model on the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.party.guard import read_delivery
from tests.cli.studies import call

STUDY = """
id = "person_id"
ledger_dir = "ledgers"
compute_nodes = ["helper"]

[budget]
epsilon = 20.0
delta = 1e-6

[split]
test = 0.3

[parties.bank]
data = "bank.csv"
[parties.bank.columns]
age = { lower = 18, upper = 95 }
default = { levels = ["no", "yes"] }
[parties.bank.policy.predictions]
LogisticRegression = ["bank"]

[parties.telco]
data = "telco.csv"
[parties.telco.columns]
bill = { lower = 0, upper = 100 }
[parties.telco.policy.predictions]
LogisticRegression = ["bank"]

[[study]]
estimator = "LogisticRegression"
target = "bank.default"
method = "secure"
epsilon = 5.0
delta = 1e-6
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    ids, age, bill = np.arange(500), rng.uniform(18, 95, 500), rng.uniform(0, 100, 500)
    default = np.where(age + bill + rng.normal(0, 20, 500) > 110, "yes", "no")
    pd.DataFrame({"person_id": ids, "age": age, "default": default}).to_csv(tmp_path / "bank.csv", index=False)
    pd.DataFrame({"person_id": ids, "bill": bill}).to_csv(tmp_path / "telco.csv", index=False)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def rows(folder: Path) -> pd.DataFrame:
    bank, telco = (pd.read_csv(folder / f"{name}.csv", index_col="person_id") for name in ("bank", "telco"))
    return pd.concat([bank.add_prefix("bank."), telco.add_prefix("telco.")], axis=1)


def test_a_model_makes_the_round_trip(study: Path) -> None:
    folder = study.parent
    ran = call("run", str(study), "--models", str(folder / "models"))
    assert ran.exit_code == 0, ran.output
    model = folder / "models" / "1-LogisticRegression.json"
    assert cn.load(model).plan_.people < 500

    evaluated = call("evaluate", str(model), str(study), "--epsilon", "2")
    assert evaluated.exit_code == 0, evaluated.output
    for word in ("accuracy", "auc", "confusion", "calibration", "ε=2"):
        assert word in evaluated.output

    predicted = call("predict", str(model), str(study), "--to", "bank")
    assert predicted.exit_code == 0, predicted.output
    (path,) = (folder / "ledgers" / "bank.deliveries").iterdir()
    assert "outside the differential-privacy promise" in predicted.output.replace("\n", " ")
    told = read_delivery(path)
    assert told["prediction"].tolist() == cn.load(model).predict(rows(folder).loc[told.index]).tolist()
    assert len(told) == 500
    for line in told["prediction"].index.astype(str)[:3]:
        assert f" {line} yes" not in predicted.output  # the screen is the coordinator's: no score is on it


def test_whom_and_what_must_exist(study: Path) -> None:
    folder = study.parent
    assert call("run", str(study), "--models", str(folder / "models")).exit_code == 0
    model = str(folder / "models" / "1-LogisticRegression.json")
    assert call("predict", model, str(study), "--to", "telco").exit_code == 1
    assert "nonprivate-refused" in call("predict", model, str(study), "--to", "telco").output
    assert call("predict", model, str(study), "--to", "bank", "--what", "transform").exit_code == 1
    assert call("predict", model, str(study), "--to", "bank", "--part", "half").exit_code == 1
    assert call("evaluate", model, str(study)).exit_code == 2
    assert call("evaluate", str(study), str(study), "--epsilon", "1").exit_code == 1
    study.write_text(STUDY.replace("[split]\ntest = 0.3\n", ""))
    assert call("evaluate", model, str(study), "--epsilon", "1").exit_code == 1
    assert call("evaluate", model, str(study), "--epsilon", "1", "--part", "all").exit_code == 0
