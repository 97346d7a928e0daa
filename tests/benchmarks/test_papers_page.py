"""The list of the papers' parts is about code that exists: modules, options, tests, claims; and the page has all of it."""

from benchmarks.frame import command, papers_page
from benchmarks.frame.circumstances import ROOT

import colonnade as cn
from colonnade.estimators.methods.method import methods_of

ITEMS = list(papers_page.items())


def test_every_part_of_a_paper_has_a_module_and_a_test() -> None:
    references = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    for item in ITEMS:
        assert (ROOT / "src" / "colonnade" / item.where).is_file(), item
        assert (ROOT / "tests" / item.test).is_file(), item
        assert f"{{#{item.paper}}}" in references, item


def test_the_option_that_reaches_it_is_one_that_the_estimator_takes() -> None:
    for item in ITEMS:
        study = eval(item.option, {"cn": cn})  # our own list
        assert type(study._checked().method) in methods_of(type(study)), item


def test_its_claims_are_claims_of_a_benchmark() -> None:
    for named in (claim for item in ITEMS for claim in item.claims):
        benchmark, _, begin = named.partition(": ")
        assert papers_page.matching(command.load(benchmark), begin), named


def test_every_published_claim_is_on_the_page_of_the_papers() -> None:
    """A table or figure that a benchmark measures is a part of a paper; bars and questions of our own are not."""
    named = [claim for item in ITEMS for claim in item.claims]
    for name in ("functional", "clustering"):
        for claim in command.load(name).claims:
            if claim.where.startswith(("Table", "Figure", "Section", "Theorem", "Primitives")):
                assert any(f"{name}: {claim.words}".startswith(one) for one in named), claim.words


def test_the_page_has_every_part() -> None:
    text = papers_page.PAGE.read_text(encoding="utf-8")
    assert [item.what for item in ITEMS if f"| {item.what} |" not in text or f"`{item.option}`" not in text] == []
