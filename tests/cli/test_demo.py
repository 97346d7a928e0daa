"""`colonnade demo`: every study beside the truth, and its accounts add up."""

import re

import pytest

from colonnade.cli.demo_comparisons import true_counts
from colonnade.cli.demo_studies import STUDIES
from colonnade.datasets.synthetic import three_organisations
from tests.cli.studies import call


@pytest.fixture(scope="module")
def output() -> str:
    result = call("demo", "--people", 2_000)
    assert result.exit_code == 0, result.output
    return str(result.output)


def test_every_study_prints_truth_estimate_error_price_and_receipt(output: str) -> None:
    parts = re.split(r"^\d+\. ", output, flags=re.MULTILINE)[1:]
    assert len(parts) == len(STUDIES)
    for part, study in zip(parts, STUDIES, strict=True):
        assert part.startswith(study.title)
        told = ("true", "estimate", "stderr", "charged ", "remaining ", "receipt ")
        for words in told if not study.extra else (f"colonnade[{study.extra}]",):
            assert words in part


def test_the_same_question_again_is_free(output: str) -> None:
    assert "The same bytes, and no ledger moved." in output
    assert "already paid, nothing spent" in output


def test_an_overspend_is_refused_and_costs_nothing(output: str) -> None:
    assert re.search(r"code +budget-exceeded", output)
    assert re.search(r"spent +nothing", output)


def test_it_shows_what_an_alignment_tells_whom(output: str) -> None:
    assert "Who is in every list" in output
    assert "nothing about its other ids" in output


def test_it_ends_with_every_ledger(output: str) -> None:
    end = output[output.index("What every ledger shows at the end") :]
    for party in ("bank", "telco", "insurer"):
        spent, remaining, cap = map(
            float, re.search(rf"^{party} +([\d.]+) +([\d.]+) +([\d.]+)", end, re.MULTILINE).groups()
        )
        assert spent > 0
        assert spent <= cap
        assert spent + remaining >= cap - 1e-3  # losses compose better than by adding their ε


def test_the_true_answer_counts_everybody_whom_all_three_know() -> None:
    data = three_organisations(people=1_000)
    frame = data.joined()
    index = frame.value_counts(["bank.segment", "telco.plan"]).index
    truth = true_counts(data, ["bank.segment", "telco.plan"], index)
    assert truth.sum() == 1_000
    assert truth.equals(frame.value_counts(["bank.segment", "telco.plan"]).rename(None).reindex(index))


def test_too_few_people_are_a_matter_of_usage() -> None:
    assert call("demo", "--people", 10).exit_code == 2
