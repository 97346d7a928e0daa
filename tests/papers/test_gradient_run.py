"""A gradient descent on shares: exact, silent about who takes part, and with nothing to gain from lying about a degree."""

import numpy as np
import pytest

from colonnade.errors import BadInput, ColonnadeError, NotEnoughComputeNodes, PlanMismatch
from colonnade.papers.conversations import GradientRun, StepLetter
from colonnade.papers.steps import STEP, GradientTerms
from colonnade.protocol import messages
from colonnade.protocol.messages import Blob, Opened, Posted, unpack
from colonnade.secure.shamir import expand, reconstruct
from tests.conversations.stage import NAMES
from tests.papers.gradient_stage import Columns, GradientStage, a_plan

SETTINGS = {
    "three parties": ({"ana": 3, "bo": 2, "cy": 1}, NAMES[:3]),
    "two parties and a node": ({"ana": 1, "bo": 4}, ("ana", "bo", "eva")),
    "four parties, of whom three compute": ({"ana": 2, "bo": 1, "cy": 1, "dee": 3}, NAMES[:4]),
    "five parties, threshold two": (dict.fromkeys(NAMES[:5], 2), NAMES[:5]),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_opened_is_the_plain_sum_plus_everyones_noise_exactly(name: str) -> None:
    widths, nodes = SETTINGS[name]
    stage = GradientStage(a_plan(widths, nodes=nodes)).meet()
    for position in range(3):
        assert stage.step() == stage.plain(position)


@pytest.mark.parametrize("spoil", ["lost", "swapped", "changed", "of another step"])
def test_a_letter_that_is_missing_or_wrong_opens_nothing(spoil: str) -> None:
    stage = GradientStage(a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3])).meet()
    stage.turn(np.zeros(4, dtype=np.int64))
    earlier = dict(stage.letters["ana"])
    if spoil == "of another step":
        stage.turn()
        stage.turn(np.zeros(4, dtype=np.int64))
        stage.letters["ana"] = earlier
    elif spoil == "lost":
        del stage.letters["ana"]["bo"]
    elif spoil == "swapped":
        stage.letters["ana"]["bo"], stage.letters["ana"]["cy"] = earlier["cy"], earlier["bo"]
    else:
        stage.letters["ana"]["bo"] = Blob(bytes(earlier["bo"].view[:-1]) + b"\0")
    with pytest.raises(ColonnadeError):
        stage.turn()


def test_shares_change_with_every_run_and_step_and_are_uniform() -> None:
    """The same values dealt again look unrelated, and their low and high halves are equally frequent."""
    plan = a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3], people=4_000, steps=2)
    seen = []
    for draw in range(2):
        stage = GradientStage(plan, draw=draw).meet()
        stage.turn(np.zeros(4, dtype=np.int64))
        letter = messages.decode(
            stage.runs["cy"]._session.open("ana", 2, 0, stage.letters["cy"]["ana"].view), StepLetter
        )
        terms = stage.terms
        seen.append(terms.arithmetic.from_bytes(letter.rows.view, (3, terms.capacity)))
    assert not np.any(seen[0] == seen[1])
    above = np.count_nonzero(seen[0] > terms.arithmetic.largest) / seen[0].size
    assert abs(above - 0.5) < 0.06


def test_sizes_and_flow_do_not_depend_on_who_takes_part() -> None:
    """A batch of nobody and a full one leave letters of the same sizes."""

    class Nobody(Columns):
        def share(self, position, weights):
            values, noise = super().share(position, weights)
            return np.zeros_like(values), noise

    plan = a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3])
    terms = GradientTerms.read(plan, STEP)
    sizes = []
    for kind in (Columns, Nobody):
        stage = GradientStage(plan, {name: kind(terms, name) for name in terms.owners}).meet()
        stage.step()
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


# Dealings of no declared degree


class _Unruly(GradientRun):
    """Deals shares of its scores that lie on no line: the third node's is off by one."""

    def _deal(self, turn, inputs, position):
        honest = self._parcel

        def parcel(dealing, shares, point):
            if point == len(self.terms.nodes) and dealing.degree == self.terms.threshold:
                shifted = [share.copy() for share in shares]
                shifted[point - 1][0] = (shifted[point - 1][0] + 1) % self.terms.arithmetic.modulus
                return honest(dealing, tuple(shifted), point)
            return honest(dealing, shares, point)

        self._parcel = parcel
        return super()._deal(turn, inputs, position)


def test_with_the_least_number_of_nodes_a_bad_dealing_tells_no_more_than_another_score_dealt_by_the_book() -> None:
    """x(3) = 3·x(1) − 2·x(0) on a line, and λ_3 = 1: the dealer, who holds x(1), gets −2·x(0), as if its scores were 2 less."""
    plan = a_plan({"ana": 2, "bo": 1, "cy": 1}, nodes=NAMES[:3])
    stage = GradientStage(plan, kinds={"ana": _Unruly}).meet()
    stage.turn(np.zeros(4, dtype=np.int64))
    letters = dict(stage.letters["ana"])
    replies = stage.turn()
    arithmetic = stage.terms.arithmetic
    shares = {point: unpack(replies[node].share).copy() for point, node in enumerate(NAMES[:3], start=1)}
    opened = reconstruct(arithmetic, shares, degree=2).astype(object)
    surplus = opened - np.array(stage.plain(0), dtype=object)
    for place, owner in ((2, "bo"), (3, "cy")):
        sealed = stage.runs["ana"]._session.open(owner, 2, 0, letters[owner].view, retried=True)
        held = expand(arithmetic, bytes(messages.decode(sealed, StepLetter).rows.view), 0, (2, stage.terms.capacity))[1]
        exact = stage.parts[owner].shared[0][0][1]
        expected = 3 * sum(map(int, held)) - 2 * sum(map(int, exact))
        assert (int(surplus[place]) - expected) % arithmetic.modulus == 0


def test_all_opened_shares_together_are_uniform_but_for_their_sum() -> None:
    """Noise polynomials of degree 2t: any two of three opened shares differ from run to run without pattern; the sum does not."""
    plan = a_plan({"ana": 2, "bo": 1}, nodes=NAMES[:3])
    seen, sums = [], set()
    for draw in range(120):
        stage = GradientStage(plan, draw=draw).meet()
        stage.turn(np.zeros(3, dtype=np.int64))
        shares = {
            point: unpack(reply.share).copy()
            for point, (_, reply) in enumerate(sorted(stage.turn().items()), start=1)
            if isinstance(reply, Opened)
        }
        seen.append([int(shares[1][0]), int(shares[2][0])])
        sums.add(int(reconstruct(stage.terms.arithmetic, shares, degree=2)[0]))
    assert len(sums) == 1
    halves = np.array(seen) > stage.terms.arithmetic.largest
    cells = np.bincount(halves[:, 0] * 2 + halves[:, 1], minlength=4)
    assert cells.min() > 8


# Plans that make no sense


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"steps": 0}, BadInput),
        ({"rate": 0.0}, BadInput),
        ({"sampling": "fair"}, BadInput),
        ({"threshold": 0}, NotEnoughComputeNodes),
        ({"nodes": ("ana", "bo")}, NotEnoughComputeNodes),
        ({"nodes": ("ana", "bo", "bo")}, PlanMismatch),
        ({"collusion": 2}, NotEnoughComputeNodes),
        ({"parties": ("ana",)}, PlanMismatch),
    ],
)
def test_a_plan_that_could_not_keep_its_promise_is_refused(changes: dict, error: type) -> None:
    arguments = {"nodes": NAMES[:3], **changes}
    with pytest.raises(error):
        GradientTerms.read(a_plan({"ana": 2, "bo": 1}, **arguments), STEP)
