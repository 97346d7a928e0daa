"""Newton steps on shares: right, opened only with everyone's noise, silent about scores, and taken once."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from colonnade.conversations.newton import LARGEST_WEIGHT, NewtonLetter, NewtonRun
from colonnade.errors import ColonnadeError, NotEnoughComputeNodes, ProtocolError
from colonnade.protocol import messages
from colonnade.protocol.messages import Blob, Opened, Posted, unpack
from colonnade.result import PrivacyStatement
from colonnade.secure.shamir import reconstruct
from colonnade.steps.kind import whole_steps
from colonnade.steps.newton import NewtonTerms, Phase
from tests import kit
from tests.conversations.newton_stage import NAME, SCALE, NewtonStage, Rows, a_plan
from tests.conversations.stage import NAMES

CURVATURE = 1
"""The round that opens the curvature in these runs."""

SETTINGS = {
    "three parties": ({"ana": 3, "bo": 2, "cy": 1}, NAMES[:3]),
    "two parties and a node": ({"ana": 1, "bo": 4}, ("ana", "bo", "eva")),
    "four parties, of whom three compute": ({"ana": 2, "bo": 1, "cy": 1, "dee": 3}, NAMES[:4]),
    "five parties, threshold two": (dict.fromkeys(NAMES[:5], 2), NAMES[:5]),
    "two parties, threshold two": ({"ana": 2, "bo": 2}, NAMES[:5]),
}
LEVELS = {"three parties": ("bo", (0, 2)), "four parties, of whom three compute": ("dee", (1, 2))}
"""Where the levels of a category are, which are not multiplied by weights."""


def _stage(people: int = 40, **changes: object) -> NewtonStage:
    return NewtonStage(a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3], people=people, **changes))


@pytest.mark.every(2)
@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_opened_is_the_likelihoods_slope_and_bend_plus_everyones_noise(name: str) -> None:
    """As near as the tables are rounded: by the bounds on that, for each of forty people."""
    widths, nodes = SETTINGS[name]
    own = {owner: {"levels": block} for owner, block in ([LEVELS[name]] if name in LEVELS else [])}
    stage = NewtonStage(a_plan(widths, nodes=nodes, own=own)).meet()
    for number in range(3):
        bounds = stage.terms.link(number)
        rounding = bounds.residual - (0.505 + 0.5) * bounds.unit
        largest = 40 * SCALE * (SCALE if number == CURVATURE else 1) * max(rounding, bounds.unit * 0.004)
        away = np.array(stage.round(number)) - stage.plain(number)
        assert np.max(np.abs(away)) <= largest
        assert np.max(np.abs(away)) < 0.2 * SCALE * bounds.unit * (SCALE if number == CURVATURE else 1)


@pytest.mark.parametrize(
    "inputs",
    [
        {"weights": np.zeros(3)},
        {"weights": np.zeros(4, dtype=np.int64)},
        {"weights": np.full(4, 2 * LARGEST_WEIGHT)},
        {"weights": np.full(4, np.nan)},
        {"weights": np.zeros(4), "before": np.zeros(12, dtype=np.int64)},
        {},
    ],
)
def test_weights_that_are_not_numbers_within_bounds_are_refused_before_anything_is_taken(inputs) -> None:
    stage = _stage().meet()
    with pytest.raises(ProtocolError):
        stage.turn(inputs)
    assert not stage.parts["ana"].taken


@pytest.mark.every(3)
@pytest.mark.parametrize("phase", [Phase.PARTS, Phase.FACTORS, Phase.SERIES, Phase.WEIGH])
@pytest.mark.parametrize("spoil", ["lost", "swapped", "changed", "too many"])
def test_a_letter_that_is_missing_or_wrong_opens_nothing(spoil: str, phase: Phase) -> None:
    stage = _stage().meet()
    stage.round(0)
    stage.until(phase, CURVATURE)
    heard = stage.letters["cy"]
    sender = next(iter(heard))
    if spoil == "lost":
        del heard[sender]
    elif spoil == "swapped":
        heard[sender] = next(iter(stage.letters["bo"].values()))
    elif spoil == "changed":
        heard[sender] = Blob(bytes(heard[sender].view[:-1]) + b"\0")
    else:
        heard["eva"] = heard[sender]
    with pytest.raises(ColonnadeError):
        stage.turn()


def test_holders_numbers_and_shares_are_uniform_and_change_with_every_run() -> None:
    plan = a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3], people=6_000)
    numbers, seen = [], []
    for draw in range(2):
        stage = NewtonStage(plan, draw=draw).meet()
        stage.until(Phase.FACTORS, 0)
        numbers.append(stage.runs["bo"]._numbers.copy())
        session, letter = stage.runs["cy"]._session, stage.letters["cy"]["ana"]
        values = messages.decode(session.open("ana", stage.number - 1, 0, letter.view), NewtonLetter).values
        shape = (2 * stage.terms.terms + 1, 6_000)
        seen.append(stage.terms.arithmetic.from_bytes(values.view, shape))
    for drawn in numbers:
        assert stats.chisquare(np.bincount(drawn >> 11, minlength=32)).pvalue > kit.ALPHA
    assert np.mean(numbers[0] == numbers[1]) < 0.01
    assert np.mean(seen[0] == seen[1]) < 0.001
    above = np.mean(seen[0] > stage.terms.arithmetic.largest)
    assert abs(above - 0.5) < 0.01


@pytest.mark.every(3)
@pytest.mark.parametrize("nodes", [3, 4, 5, 7])
@pytest.mark.parametrize("parties", [2, 3, 4, 5])
@pytest.mark.parametrize("apart", [False, True], ids=["parties compute", "a committee computes"])
def test_no_set_of_members_that_may_collude_has_all_numbers_of_a_score(nodes: int, parties: int, apart: bool) -> None:
    owners, others = [f"p{number}" for number in range(parties)], [f"q{number}" for number in range(nodes)]
    chosen = others if apart else [*owners, *others][:nodes]
    terms = NewtonTerms.read(a_plan(dict.fromkeys(owners, 1), nodes=chosen), NAME)
    told = {terms.teller, *terms.evaluators}
    assert len(set(terms.maskers)) == terms.threshold
    assert not told & set(terms.maskers)
    assert len(set(terms.evaluators)) == terms.threshold + 1
    assert set(terms.evaluators) <= set(terms.nodes)
    for group in combinations(terms.members, terms.threshold):
        assert not (set(terms.maskers) <= set(group) and told & set(group))


@pytest.mark.every(3)
@pytest.mark.parametrize("nodes", [3, 5])
@pytest.mark.parametrize("parties", [2, 3, 4])
@pytest.mark.parametrize("apart", [False, True], ids=["parties compute", "a committee computes"])
def test_a_statement_promises_nothing_to_who_knows_every_score(nodes: int, parties: int, apart: bool) -> None:
    """Whether or not those who know it compute; and to nobody else less than to as many others."""
    owners, others = [f"p{number}" for number in range(parties)], [f"q{number}" for number in range(nodes)]
    plan = a_plan(dict.fromkeys(owners, 1), nodes=others if apart else [*owners, *others][:nodes])
    (whole,) = whole_steps(plan)
    (opening,) = whole.kind.openings(whole, {}, "newton")
    terms = NewtonTerms.read(plan, NAME)
    told = {terms.teller, *terms.evaluators}
    statement = PrivacyStatement((opening,), tuple(owners), 1e-5)
    known = 0
    for size in range(1, terms.threshold + 3):
        for group in map(set, combinations(terms.members, size)):
            if set(owners) <= group:
                continue
            knows = set(terms.maskers) <= group and bool(told & group)
            known += knows and len(group & set(terms.nodes)) <= terms.threshold
            broken = knows or len(group & set(terms.nodes)) > terms.threshold
            observer = ("coordinator", *sorted(group))
            assert math.isinf(statement.epsilon(observer=observer)) == broken
            assert math.isinf(statement.epsilon(observer=observer, unit="party")) == broken
            assert math.isinf(statement.epsilon_if_replaced(observer=observer)) == broken
            if size == terms.threshold + 1 and knows:
                assert frozenset(group) in statement.trust._broken()
    assert bool(known) == (apart and not set(owners) <= set(terms.maskers))
    assert statement.collusion == 1


def test_sizes_and_flow_do_not_depend_on_the_rows() -> None:
    """Nobody with a label and scores of 0, or everybody with any: letters of the same sizes, in the same order."""

    class Nobody(Rows):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.rows, self.scores, self.label = 0 * self.rows, 0 * self.scores, 0 * self.label - 1

    plan = a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3])
    terms = NewtonTerms.read(plan, NAME)
    sizes = []
    for kind in (Rows, Nobody):
        stage = NewtonStage(plan, {name: kind(terms, name) for name in terms.owners}).meet()
        stage.round(0), stage.round(1)
        sizes.append(
            [
                {
                    name: {to: len(letter) for to, letter in reply.letters.items()}
                    for name, reply in turn.items()
                    if isinstance(reply, Posted)
                }
                for turn in stage.replies
            ]
        )
    assert sizes[0] == sizes[1]


def test_what_a_node_deals_again_is_uniform_to_one_other_node() -> None:
    """The share of a re-dealt residual at one node: were the product's own share sent on, it would depend on the factors."""
    stage = _stage(people=8_000).meet().until(Phase.SERIES, 0)
    session, letter = stage.runs["cy"]._session, stage.letters["cy"]["bo"]
    values = messages.decode(session.open("bo", stage.number - 1, 0, letter.view), NewtonLetter).values
    share = stage.terms.arithmetic.from_bytes(values.view, (8_000,))
    counts = np.bincount((share // np.uint64(stage.terms.arithmetic.modulus // 16 + 1)).astype(int), minlength=16)
    assert stats.chisquare(counts).pvalue > kit.ALPHA


# Who computes


def test_the_coordinator_is_no_node_of_a_plan_that_deals_again() -> None:
    plan = a_plan({"ana": 2, "bo": 1}, nodes=("ana", "bo", "coordinator"))
    with pytest.raises(NotEnoughComputeNodes, match="the coordinator cannot be one of them"):
        NewtonTerms._of(plan, NAME)  # not remembered
    assert NewtonTerms.read(a_plan({"ana": 2, "bo": 1}, nodes=("ana", "bo", "eva")), NAME).nodes[-1] == "eva"


def test_a_node_that_deviates_would_amplify_a_row_which_is_why_the_coordinator_is_none() -> None:
    """One node adds a number to one person's residual before it deals it again: the step opens that multiple of the row."""

    class Amplifying(NewtonRun):
        def _say(self, turn, number, inputs):
            node, honest = self._node, None if self._node is None else self._node.product
            if node is not None and (turn.phase, turn.round_number) == (Phase.SERIES, 0):
                arithmetic = self.terms.arithmetic

                def product(one):
                    values = honest(one)
                    if (one.phase, one.round_number) != (Phase.SERIES, 0):
                        return values
                    values[7] = (int(values[7]) + 5_000 * self.terms.bounds.unit) % arithmetic.modulus
                    return values

                node.product = product
            return super()._say(turn, number, inputs)

    plan = a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3], parameters={"parts": (1, 1)}, people=40)
    opened = []
    for kinds in ({}, {"bo": Amplifying}):
        stage = NewtonStage(plan, kinds=kinds).meet()
        stage.until(Phase.OPEN, 0)
        opened.append({name: reply for name, reply in stage.replies[-1].items() if isinstance(reply, Opened)})
    arithmetic = stage.terms.arithmetic
    values = [
        reconstruct(arithmetic, {p: unpack(one[n].share).copy() for p, n in enumerate(stage.terms.nodes, 1)}, degree=2)
        for one in opened
    ]
    row = np.concatenate([stage.parts[owner].rows[:, 7] for owner in stage.terms.owners])
    weight = 5_000 * stage.terms.bounds.unit
    assert np.array_equal(values[1] - values[0], weight * row)


# Plans


@pytest.mark.every(3)
@pytest.mark.parametrize("parties", [2, 3, 4, 5])
@pytest.mark.parametrize("nodes", [3, 5, 7])
def test_there_is_room_for_a_million_people_at_the_default_scale(parties: int, nodes: int) -> None:
    names = tuple(f"p{number}" for number in range(7))
    plan = a_plan(
        dict.fromkeys(names[:parties], 8),
        nodes=names[:nodes],
        people=1_000_000,
        parameters={"scale": 1_024, "row_bound": 8 * 1_024**2, "window": 12},
    )
    terms = NewtonTerms.read(plan, NAME)
    assert max(terms.bound(number) for number in range(terms.rounds)) <= terms.arithmetic.largest


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"window": 9}},
        {"parameters": {"parts": (1,)}},
        {"parameters": {"parts": (1, 0, 1)}},
        {"parameters": {"target": ""}},
        {"parameters": {"scale": 0}},
        {"parameters": {"levels": (0, 1)}},
        {"own": {"ana": {"levels": (0, 1)}}},
        {"own": {"ana": {"levels": (1, 2)}}},
        {"own": {"bo": {"levels": (0, 0)}}},
        {"own": {"bo": {"levels": (0,)}}},
        {"collusion": 2},
    ],
)
def test_plans_that_could_not_keep_their_promise_are_refused(changes: dict) -> None:
    with pytest.raises(ColonnadeError):
        NewtonTerms.read(a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3], **changes), NAME)
