"""Counts and sums by group on shares: exact, opened only with everyone's noise, and silent about what is dealt again."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from colonnade.conversations.products import GroupLetter, GroupRun, ProductRun
from colonnade.errors import BadInput, PlanMismatch, ProtocolError
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.secure.shamir import expand
from colonnade.steps.describing import GroupTerms
from colonnade.steps.kind import read_joint
from tests import kit
from tests.conversations.sites import replaced
from tests.conversations.stage import NAMES, STEP, Stage, Table, Watched, a_plan, seed

SCALE, HEIGHT = 6, 4
PRICE = Price.of(1.0, 1e-5)
Parts = Mapping[str, tuple[int, int]]


def step_of(party: str, groups: int, values: int, kind: str, /, **changes) -> Step:
    """One party's step: groups of one column, and some values; a party without either helps."""
    by = ("group",) if groups else ()
    names = tuple(f"value{number}" for number in range(values))
    parameters = {
        "by": by,
        "values": names,
        "groups": max(groups, 1),
        "scale": SCALE,
        "height": HEIGHT,
        "width": max(groups, 1) * (1 + values),
    } | changes
    return Step(name=STEP, party=party, kind=kind, columns=(*by, *names), parameters=parameters, price=PRICE)


def plan_of(parts: Parts, *, people: int = 9, steps: tuple[Step, ...] = (), **changes) -> Plan:
    holders = sum(groups + values > 0 for groups, values in parts.values())
    kind = "group-sums" if holders == 2 else "group-chain"
    steps = steps or tuple(step_of(party, *part, kind) for party, part in parts.items())
    return replaced(a_plan(dict.fromkeys(parts, 1), people=people, task="groups", **changes), steps=steps)


@dataclass
class People:
    """Who is in which group, with which values; and the same in the columns that parties share."""

    parts: Parts
    codes: dict[str, np.ndarray]
    values: dict[str, np.ndarray]

    @classmethod
    def some(cls, parts: Parts, people: int, name: str) -> "People":
        generator = kit.generator(name)
        codes = {party: generator.integers(-1, max(groups, 1), people) for party, (groups, _) in parts.items()}
        values = {party: generator.integers(-SCALE, SCALE + 1, (k, people)) for party, (_, k) in parts.items()}
        return cls(parts, codes, values)

    def columns(self, party: str) -> np.ndarray:
        groups, values = self.parts[party]
        if not groups + values:
            return np.zeros((len(self.codes[party]), 1), dtype=np.int64)
        indicators = (self.codes[party] == np.arange(max(groups, 1))[:, None]).astype(np.int64)
        high = HEIGHT if values else 1
        return np.concatenate([high * indicators, *(indicators * row for row in self.values[party])]).T

    def plain(self) -> list[int]:
        """All counts, then all sums, person by person, in Python's integers."""
        holders = [party for party, part in self.parts.items() if sum(part)]
        shape = [max(self.parts[party][0], 1) for party in holders]
        names = [(party, place) for party in holders for place in range(self.parts[party][1])]
        valued = sum(self.parts[party][1] > 0 for party in holders)
        tables = np.zeros((1 + len(names), *shape), dtype=object)
        for person in range(len(self.codes[holders[0]])):
            cell = tuple(int(self.codes[party][person]) for party in holders)
            if min(cell) < 0:
                continue
            tables[(0, *cell)] += HEIGHT**valued
            for place, (party, number) in enumerate(names, start=1):
                tables[(place, *cell)] += int(self.values[party][number, person]) * HEIGHT ** (valued - 1)
        return tables.ravel().tolist()


class WatchedGroups(Watched, GroupRun):
    """A run over three parties whose letters can be made to lie."""


def stage_of(
    plan: Plan, people: People, kinds: Mapping[str, type[ProductRun]] | None = None, draw: object = 0
) -> Stage:
    joint = read_joint(plan, STEP)
    generator = kit.generator("noise of groups")
    tables = {
        owner: Table(people.columns(owner), generator.integers(-9, 10, joint.entries), secret=seed("secret", owner))
        for owner in joint.owners
    }
    usual = dict.fromkeys(joint.members, WatchedGroups if len(GroupTerms.read(joint.steps).holders) == 3 else Watched)
    return Stage(plan, tables, {**usual, **(kinds or {})}, draw)


def expected(stage: Stage, people: People) -> list[int]:
    noise = np.sum([table.noises for table in stage.tables.values()], axis=0)
    return (np.array(people.plain(), dtype=object) + noise).tolist()


SETTINGS: dict[str, tuple[Parts, dict]] = {
    "two parties": ({"ana": (3, 0), "bo": (2, 1)}, {}),
    "values at both": ({"ana": (3, 2), "bo": (2, 1)}, {}),
    "a party with values alone": ({"ana": (4, 0), "bo": (0, 2)}, {}),
    "a helper in the middle": ({"ana": (3, 1), "bo": (0, 0), "cy": (2, 1)}, {}),
    "two helpers": ({"ana": (0, 0), "bo": (3, 0), "cy": (2, 1), "dee": (0, 0)}, {"nodes": NAMES[:5]}),
    "counts alone": ({"ana": (3, 0), "bo": (4, 0)}, {}),
    "three parties": ({"ana": (3, 0), "bo": (2, 0), "cy": (0, 1)}, {}),
    "three parties, values at all": ({"ana": (2, 1), "bo": (3, 2), "cy": (2, 1)}, {}),
    "three parties and a helper": ({"ana": (2, 1), "bo": (0, 0), "cy": (2, 0), "dee": (3, 1)}, {"nodes": NAMES[:5]}),
    "three parties, counts alone": ({"ana": (2, 0), "bo": (3, 0), "cy": (4, 0)}, {}),
    "other nodes": ({"ana": (2, 0), "bo": (2, 1), "cy": (2, 0)}, {"nodes": ("dee", "eva", "flo")}),
    "threshold two": ({"ana": (2, 0), "bo": (2, 1), "cy": (0, 1)}, {"nodes": NAMES[:5], "collusion": 2}),
    "an even number of nodes": ({"ana": (2, 0), "bo": (2, 1), "cy": (0, 1)}, {"nodes": NAMES[:4]}),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_opened_is_every_count_and_sum_plus_everyones_noise(name):
    parts, changes = SETTINGS[name]
    plan, people = plan_of(parts, **changes), People.some(parts, 9, name)
    stage = stage_of(plan, people).play()
    assert stage.opened == expected(stage, people)


# Members that do not do their part ------------------------------------------------------------------------------------------

THREE = {"ana": (2, 0), "bo": (2, 1), "cy": (2, 0)}


def test_a_node_that_does_not_deal_its_products_again_stops_the_run():
    class Silent(WatchedGroups):
        def _further_parts(self, point):
            return {}

    turn, refused = stage_of(plan_of(THREE), People.some(THREE, 9, "silent"), {"bo": Silent}).refusals()
    assert turn == 3
    assert set(refused) == {"ana", "cy"}
    assert all(isinstance(error, ProtocolError) for error in refused.values())


def test_a_party_that_deals_values_of_no_low_degree_is_found_out_before_anything_is_opened():
    class Crooked(WatchedGroups):
        def alter(self, turn, receiver, letter):
            if turn != 1 or letter.share is None:
                return letter
            share = self._arithmetic.from_bytes(letter.share.view, (4, 9)).copy()
            share[0, 0] = (int(share[0, 0]) + 1) % self._arithmetic.modulus
            changed = {name: getattr(letter, name) for name in letter.__struct_fields__}
            return GroupLetter(**changed | {"share": type(letter.share)(self._arithmetic.to_bytes(share))})

    plan = plan_of({"ana": (2, 0), "bo": (2, 1), "cy": (2, 0)})
    turn, refused = stage_of(plan, People.some(THREE, 9, "crooked"), {"bo": Crooked}).refusals()
    assert turn == 4
    assert all("degree" in str(error) or isinstance(error, ProtocolError) for error in refused.values())


def test_what_a_node_deals_again_tells_another_node_nothing_about_the_rows():
    """The same products under other coins, and other products: one node's share is uniform either way."""
    seen = {}
    for name in ("some people", "other people"):
        people, words = People.some(THREE, 9, name), []
        for draw in range(60):
            stage = stage_of(plan_of(THREE), people, draw=draw).play()
            joint, run = stage.joint, stage.runs["bo"]
            letter = run.written[2, "cy"]
            assert isinstance(run, GroupRun)
            shape = (joint.redealt, 9)
            seeded = joint.nodes.index("cy") + 1 <= joint.threshold
            elements = (
                expand(joint.arithmetic, bytes(letter.again.view), 0, shape)
                if seeded
                else joint.arithmetic.from_bytes(letter.again.view, shape)
            )
            words.append(elements.ravel())
        seen[name] = np.concatenate(words).astype(float) / stage.joint.arithmetic.modulus
        assert stats.kstest(seen[name], "uniform").pvalue > kit.ALPHA
    assert stats.ks_2samp(*seen.values()).pvalue > kit.ALPHA


# Plans that are refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("party", "changes"),
    [
        ("bo", {"scale": SCALE + 1}),
        ("bo", {"height": HEIGHT + 1}),
        ("bo", {"width": 5}),
        ("bo", {"groups": 3}),
        ("bo", {"values": ("value0", "value0")}),
        ("bo", {"values": ()}),
        ("ana", {"by": ("other",)}),
        ("ana", {"height": 0}),
        ("ana", {"scale": 1 << 20}),
    ],
)
def test_steps_that_do_not_fit_together_are_refused(party, changes):
    steps = [step_of(name, *part, "group-chain", **(changes if name == party else {})) for name, part in THREE.items()]
    with pytest.raises((PlanMismatch, BadInput)):
        read_joint(plan_of(THREE, steps=tuple(steps)), STEP)
