"""Matchings among made-up parties, without guards or ledgers: the coordinator's part is played here, and can be played badly."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from colonnade.conversations.conversation import Member
from colonnade.conversations.matching import MatchingRun
from colonnade.plan import Plan, Step
from colonnade.privacy.accounting import Price
from colonnade.protocol.messages import Blob, Described, Greeted, Posted
from colonnade.steps.alignment import IdRules, Matching
from colonnade.steps.kind import kind_of
from tests import kit
from tests.conversations.stage import FEDERATION, RUN, members, seed

STEP = "rows"
Letters = dict[str, dict[str, Blob]]
Relay = Callable[[int, Letters], Letters]


def honest(_: int, letters: Letters) -> Letters:
    return letters


def list_plan(
    capacities: Mapping[str, int], *, size: str = "hidden", epsilon: float | None = None, kind: str = "matching"
) -> Plan:
    price = None if epsilon is None else Price.of(epsilon)
    return kit.written(
        *(
            Step(
                name=STEP,
                party=party,
                kind=kind,
                columns=(),
                parameters={**IdRules().parameters(), "capacity": capacity, "size": size},
                price=price,
            )
            for party, capacity in capacities.items()
        ),
        task="alignment",
        method="intersection",
        price=price,
        federation=FEDERATION,
        alignment="unaligned",
        people=0,
    )


class ListPart:
    """A party's list; the order that it keeps is there to look at."""

    def __init__(self, name: str, ids: Sequence[bytes], places: Callable[[int], int]) -> None:
        self.name, self.ids, self._places = name, list(ids), places
        self.kept: tuple[str, np.ndarray] | None = None
        self.told = 0

    def begin(self) -> list[bytes]:
        return self.ids

    def tell(self) -> None:
        self.told += 1

    def places(self, common: int) -> int:
        return self._places(common)

    def keep(self, identity: str, order: np.ndarray) -> Described:
        self.kept = (identity, order)
        return Described(party=self.name, schema=(), alignment=identity, people=len(order))

    def in_order(self) -> list[bytes | None]:
        assert self.kept is not None
        return [self.ids[row] if row >= 0 else None for row in self.kept[1]]


class ListStage:
    """One run of a matching.

    Parameters
    ----------
    lists
        Ids by party.
    capacity
        How long every list looks.
    relay
        What the coordinator makes of the letters of a turn.
    places
        How many places there are, by how many people are common.
    run
        Which run; another has other keys.
    """

    def __init__(
        self,
        lists: Mapping[str, Sequence[bytes]],
        *,
        capacity: int | Mapping[str, int] = 16,
        relay: Relay = honest,
        places: Callable[[int], int] = lambda common: common,
        run: str = "run",
        run_class: type = MatchingRun,
        kind: str = "matching",
        size: str = "",
    ) -> None:
        capacities = capacity if isinstance(capacity, Mapping) else dict.fromkeys(lists, capacity)
        self.plan = list_plan(capacities, kind=kind, size=size or ("hidden" if kind == "union" else "public"))
        self.matching = Matching.read(self.plan, STEP)
        everyone: dict[str, Member] = members(tuple(lists))
        self.parts = {name: ListPart(name, ids, places) for name, ids in lists.items()}
        self.runs = {
            name: run_class(everyone[name], self.plan, STEP, RUN, part=self.parts[name], secret=seed(run, name))
            for name in lists
        }
        self._relay = relay
        self.sizes: list[tuple[int, str, str, int]] = []
        self.letters: list[Letters] = []

    def play(self) -> dict[str, list[bytes | None]]:
        """Run to the end; return each party's ids in the order that it keeps."""
        names = list(self.runs)
        hellos = {}
        for name in names:
            reply = self.runs[name].turn(0, {}, {})
            assert isinstance(reply, Greeted)
            hellos[name] = Blob(reply.hello)
        letters: Letters = dict.fromkeys(names, hellos)
        for turn in range(1, kind_of(self.plan.steps[0]).last_turn(self.matching) + 1):  # type: ignore[attr-defined]
            delivered = self._relay(turn - 1, letters) if turn > 1 else letters
            replies = {name: self.runs[name].turn(turn, delivered.get(name, {}), {}) for name in names}
            if all(isinstance(reply, Described) for reply in replies.values()):
                break
            letters = {}
            for sender, reply in replies.items():
                assert isinstance(reply, Posted)
                for receiver, letter in reply.letters.items():
                    letters.setdefault(receiver, {})[sender] = letter
                    self.sizes.append((turn, sender, receiver, len(letter)))
            self.letters.append(letters)
        return {name: part.in_order() for name, part in self.parts.items()}
