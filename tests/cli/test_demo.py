"""`colonnade demo`: every answer beside the truth, and its accounts add up."""

import re

import pytest

from colonnade.cli.demo_comparisons import true_counts
from colonnade.cli.demo_studies import MORE, STORY
from colonnade.datasets.synthetic import three_organisations
from tests.cli.studies import call


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.full)], ids=["story", "all"])
def everything(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def output(everything: bool) -> str:
    result = call("demo", "--people", 2_000, *(["--all"] if everything else []))
    assert result.exit_code == 0, result.output
    return str(result.output)


def screens(output: str) -> list[str]:
    return re.split(r"^\d+ of \d+  ", output, flags=re.MULTILINE)[1:]


def test_every_study_asks_a_question_and_prints_truth_estimate_and_price(output: str, everything: bool) -> None:
    studies = (*STORY, *(MORE if everything else ()))
    for part, study in zip(screens(output)[: len(studies)], studies, strict=True):
        assert part.startswith(study.question)
        assert study.question.endswith("?")
        for words in ("true", "estimate", "Price: ε = ", "In all: ") if not study.extra else (f"[{study.extra}]",):
            assert words in part.replace("Price: nothing", "Price: ε = ")


def test_the_story_has_about_a_dozen_screens_and_no_words_of_the_protocol(output: str, everything: bool) -> None:
    assert 10 <= len(STORY) + 4 <= 14
    assert len(screens(output)) == len(STORY) + (len(MORE) if everything else 0) + 4
    assert not re.search(r"\b(?:bytes,|rounds|receipt|t = \d|c = \d)\b", output)


def test_models_are_shown_with_their_own_intervals(output: str) -> None:
    income = next(part for part in screens(output) if part.startswith("What explains income?"))
    assert re.search(r"insurer\.premium .* to ", income)


@pytest.mark.full
def test_the_quick_story_leaves_out_what_is_slow() -> None:
    slow = [study for study in STORY if study.slow]
    assert slow
    result = call("demo", "--people", 2_000, "--quick")
    assert result.exit_code == 0, result.output
    assert len(screens(result.output)) == len(STORY) + 4 - len(slow)


def test_a_chart_is_drawn_in_the_terminal(output: str) -> None:
    assert re.search(r"basic · standard +█+", output)


def test_the_same_question_again_is_free(output: str) -> None:
    assert "the same bytes, and no ledger moved" in output


def test_an_overspend_is_refused_and_costs_nothing(output: str) -> None:
    assert re.search(r"code +budget-exceeded", output)
    assert re.search(r"spent +nothing", output)


def test_it_shows_what_an_alignment_tells_whom(output: str) -> None:
    assert "Who is in every list" in output
    assert "nothing about its other ids" in output


def test_it_ends_with_every_ledger_and_a_report(output: str) -> None:
    end = output[output.index("What did all this cost?") :]
    for party in ("bank", "telco", "insurer"):
        spent, remaining, cap = map(
            float, re.search(rf"^{party} +([\d.]+) +([\d.]+) +([\d.]+)", end, re.MULTILINE).groups()
        )
        assert spent > 0
        assert spent <= cap
        assert spent + remaining >= cap - 1e-3  # losses compose better than by adding their ε
    assert "demo.html" in end


def test_the_true_answer_counts_everybody_whom_all_three_know() -> None:
    data = three_organisations(people=1_000)
    frame = data.joined()
    index = frame.value_counts(["bank.segment", "telco.plan"]).index
    truth = true_counts(data, ["bank.segment", "telco.plan"], index)
    assert truth.sum() == 1_000
    assert truth.equals(frame.value_counts(["bank.segment", "telco.plan"]).rename(None).reindex(index))


def test_too_few_people_are_a_matter_of_usage() -> None:
    assert call("demo", "--people", 10).exit_code == 2
