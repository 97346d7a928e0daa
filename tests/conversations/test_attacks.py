"""Attacks on a run by those who take part in it, each with a positive control: a seeded bug under which the attack succeeds.

One party's column of eight bits is the prize. An attacker who learns one exact linear combination of it, modulo a number far
above 2⁸, tries all columns and finds the one that fits.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

from colonnade.conversations import products as run_module
from colonnade.conversations.conversation import ChallengeChain, challenge
from colonnade.conversations.products import ProductLetter
from colonnade.errors import ProtocolError
from colonnade.secure.keys import digest, subseed
from colonnade.secure.residues import Elements
from colonnade.secure.shamir import Dealing, check_repetitions, expand
from tests import kit
from tests.conversations.stage import Stage, Table, Watched, a_plan, altered, seed

PEOPLE = 8
NODES = ("ana", "bo", "cy")
POINTS = {name: number + 1 for number, name in enumerate(NODES)}
Equation = Callable[[tuple[int, ...], int], int]


BITS = {name: kit.generator(f"attacks on {name}").integers(0, 2, size=(PEOPLE, 1)) for name in ("ana", "bo")}


def a_stage(draw: object = 0, **options) -> Stage:
    """Ana and Bo hold a column of bits each; Cy computes and holds nothing."""
    plan = a_plan({"ana": 1, "bo": 1}, nodes=NODES, people=PEOPLE, scale=1)
    tables = {
        name: Table(BITS[name], np.array([noise]), secret=seed("secret", name))
        for name, noise in (("ana", 5), ("bo", -3))
    }
    return Stage(plan, tables, draw=draw, **options)


def prize(stage: Stage) -> list[tuple[int, ...]]:
    return [tuple(stage.tables["ana"].values[:, 0].tolist())]


def solutions(stage: Stage, *equations: Equation) -> list[tuple[int, ...]]:
    """All columns of bits for which every equation holds modulo every prime."""
    return [
        bits
        for bits in product((0, 1), repeat=PEOPLE)
        if all(equation(bits, prime) % prime == 0 for prime in stage.joint.arithmetic.moduli for equation in equations)
    ]


def whole(elements: Elements) -> list[int]:
    return [int(element) for element in np.asarray(elements).ravel()]


# A party that pools with the coordinator reads the opened polynomial


def coefficients(values: dict[int, int], prime: int) -> tuple[int, int, int]:
    """The polynomial of degree two through three points 1, 2, 3."""
    one, two, three = values[1], values[2], values[3]
    half = pow(2, -1, prime)
    second = (one - 2 * two + three) * half % prime
    first = (two - one - 3 * second) % prime
    return (one - first - second) % prime, first, second


def known_polynomial(stage: Stage, prime: int) -> list[tuple[int, int, int]]:
    """Bo's own column: f(0), and the coefficients that he drew."""
    shares = stage.runs["bo"]._dealing._table.shares(1, stage.tables["bo"].values)
    return [
        coefficients({point: whole(share)[person] for point, share in enumerate(shares, 1)}, prime)
        for person in range(PEOPLE)
    ]


def opened_without_his_noise(stage: Stage, prime: int) -> tuple[int, ...]:
    """The coefficients of what was opened, less those of the noise that Bo dealt."""
    noise = [whole(share)[0] for share in stage.runs["bo"]._dealing._noise_shares]
    opened = {point: whole(share)[0] - noise[point - 1] for point, share in stage.shares.items()}
    return coefficients(opened, prime)


def leading_coefficient(stage: Stage) -> Equation:
    """Σ a_r·b_r, where Bo knows b_r and his share x_r + 2·a_r of every bit x_r."""

    def equation(bits: tuple[int, ...], prime: int) -> int:
        held, half = whole(stage.runs["bo"].held_shares[0]), pow(2, -1, prime)
        drawn = [(share - bit) * half for share, bit in zip(held, bits, strict=True)]
        known = [polynomial[1] for polynomial in known_polynomial(stage, prime)]
        return opened_without_his_noise(stage, prime)[2] - sum(a * b for a, b in zip(drawn, known, strict=True))

    return equation


def noise_dealt_by(monkeypatch: pytest.MonkeyPatch, polynomial: str) -> None:
    """A seeded bug: the noise is shared, but not by fresh polynomials of degree 2t."""
    real, real_from = run_module.Dealt.__init__, run_module._from_parcel

    def init(self, joint, dealer, run_secret, own):
        real(self, joint, dealer, run_secret, own)
        if polynomial == "degree t":
            dealing = Dealing(joint.arithmetic, nodes=3, degree=joint.threshold, seed=seed("noise", dealer.secret))
            self._noise_shares = dealing.shares(0, dealer.noises)
        else:
            self._noise_shares = (joint.arithmetic.encode(dealer.noises),) * 3

    def parcel(self, dealing, shares, point, degree):
        return run_module.Blob(self._joint.arithmetic.to_bytes(shares[point - 1]))

    def received(parcel, joint, *, seeded, count, position=0):
        return real_from(parcel, joint, seeded=False, count=count)

    monkeypatch.setattr(run_module.Dealt, "__init__", init)
    monkeypatch.setattr(run_module.Dealt, "_parcel", parcel)
    monkeypatch.setattr(run_module, "_from_parcel", received)


def test_a_party_with_the_coordinator_reads_no_row_off_the_opened_polynomial():
    stage = a_stage().play()
    assert stage.opened == stage.plain
    assert solutions(stage, leading_coefficient(stage)) == []


@pytest.mark.parametrize("polynomial", ["degree t", "constant"])
def test_without_fresh_noise_polynomials_of_degree_2t_it_reads_every_row(polynomial, monkeypatch):
    noise_dealt_by(monkeypatch, polynomial)
    stage = a_stage().play()
    assert stage.opened == stage.plain  # the bug is not to be seen in the result
    assert solutions(stage, leading_coefficient(stage)) == prize(stage)


# A party deals its own column anew in a second run


def first_coefficients(one: Stage, other: Stage) -> Equation:
    """Σ x_r·(b_r - b'_r): what is left of two openings if nothing but Bo's polynomials has changed."""

    def equation(bits: tuple[int, ...], prime: int) -> int:
        opened = [opened_without_his_noise(stage, prime)[1] for stage in (one, other)]
        drawn = [[polynomial[1] for polynomial in known_polynomial(stage, prime)] for stage in (one, other)]
        left = sum(bit * (b - again) for bit, b, again in zip(bits, *drawn, strict=True))
        return opened[0] - opened[1] - left

    return equation


def test_a_party_that_deals_anew_in_a_second_run_learns_nothing_from_the_difference():
    one, other = a_stage("first").play(), a_stage("second").play()
    assert one.opened == other.opened
    assert solutions(one, first_coefficients(one, other)) == []


def test_were_polynomials_kept_from_run_to_run_it_would_read_every_row(monkeypatch):
    """A seeded bug: Ana deals by the polynomials of the first run again."""

    def kept(label, secret, run_secret):
        ours = secret == seed("secret", "ana")
        return digest(label, secret) if ours else digest(label, secret, run_secret)

    monkeypatch.setattr(
        run_module, "digest", lambda label, *f: kept(label, *f) if "dealing" in label else digest(label, *f)
    )
    one, other = a_stage("first").play(), a_stage("second").play()
    assert solutions(one, first_coefficients(one, other)) == prize(one)


# A node tells different nodes of different challenges


class Gullible(Watched):
    """A seeded bug: a node that does not compare what it was told with what the others were."""

    def _take(self, turn, letters) -> None:
        super()._take(turn, {name: altered(letter, heads=self._heads) for name, letter in letters.items()})


class Equivocates(Gullible):
    """Cy commits to one chain towards Ana and to another towards Bo."""

    def chain(self, receiver: str) -> ChallengeChain:
        return ChallengeChain(seed("chain for", receiver), len(self.chunks))

    def alter(self, turn: int, receiver: str, letter: ProductLetter) -> ProductLetter:
        if turn == 1:
            return altered(letter, head=self.chain(receiver).head)
        if 2 <= turn <= len(self.chunks) + 1:
            return altered(letter, reveal=self.chain(receiver).link(turn - 1), heads=self.told(receiver))
        return letter

    def told(self, receiver: str) -> bytes:
        """Whatever would please the receiver."""
        heads = {**{name: self.others[name]._chain.head for name in ("ana", "bo")}, "cy": self.chain(receiver).head}
        return run_module.commitments(heads)


def shown_checks(stage: Stage) -> Iterator[ProductLetter]:
    return (letter for name in ("ana", "bo") for letter in stage.runs[name].written.values() if letter.check)


def equivocate(**kinds) -> Stage:
    """Play until somebody objects."""
    stage = a_stage(kinds={"cy": Equivocates, **kinds})
    stage.runs["cy"].others = stage.runs
    with pytest.raises(ProtocolError) as refusal:
        stage.play()
    stage.refusal = refusal.value
    return stage


def difference_of_checks(stage: Stage, repetition: int) -> Equation:
    """Ana's mask m has degree one: m(1) - 2·m(2) = -m(3), and Cy knows m(3). The rest is a combination of bits."""
    arithmetic, repetitions = stage.joint.arithmetic, check_repetitions(stage.joint.arithmetic)
    cy = stage.runs["cy"]

    def weights(receiver: str) -> list[int]:
        links = {name: stage.runs[name]._chain.link(1) for name in ("ana", "bo")}
        seen = challenge({**links, "cy": cy.chain(receiver).link(1)})
        rows = expand(arithmetic, subseed(seen, "colonnade degree check: rows"), 0, (repetitions, PEOPLE))
        columns = expand(arithmetic, subseed(seen, "colonnade degree check: columns"), 0, (1, repetitions))
        return [row * whole(columns[0])[repetition] for row in whole(rows[repetition])]

    def equation(bits: tuple[int, ...], prime: int) -> int:
        mask, held = whole(cy._received["ana"].mask)[repetition], whole(cy.held_shares[0])
        total, third = mask, pow(3, -1, prime)
        for name, factor in (("ana", 1), ("bo", -2)):
            shown = stage.runs[name].written[3, "cy"].check["ana"]
            total += factor * whole(arithmetic.from_bytes(shown.view, (repetitions,)))[repetition]
            for weight, bit, share in zip(weights(name), bits, held, strict=True):
                total -= factor * weight * (bit + POINTS[name] * (share - bit) * third)
        return total

    return equation


def test_a_node_that_tells_different_challenges_is_found_out_before_any_check_is_shown():
    stage = equivocate()
    assert "different challenges" in stage.refusal.message
    assert list(shown_checks(stage)) == []


def test_were_it_believed_it_would_read_every_row():
    stage = equivocate(ana=Gullible, bo=Gullible)
    assert "polynomial of the declared degree" in stage.refusal.message  # too late: the checks were shown
    assert len(list(shown_checks(stage))) == 4
    equations = [difference_of_checks(stage, number) for number in range(check_repetitions(stage.joint.arithmetic))]
    assert solutions(stage, *equations) == prize(stage)
