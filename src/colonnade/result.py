"""The privacy statement of a study: who could see what, at what price.

An *opening* is one value that became visible. A statement composes openings for any observer: the coordinator, a party, or a
coalition of them, for either unit. Openings of one study use independent randomness, so their losses add.
"""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

import pandas as pd

from colonnade.errors import BadInput
from colonnade.plan import RELATION, Unit
from colonnade.privacy.accounting import Loss, total

__all__ = ["COORDINATOR", "COORDINATOR_ALONE", "Opening", "PrivacyStatement"]

COORDINATOR = "coordinator"
COORDINATOR_ALONE = "assumes the coordinator colludes with no party"
"""What every statement says of a study in which the coordinator is itself a compute node."""


@dataclass(frozen=True)
class Opening:
    """One value that became visible.

    Parameters
    ----------
    mechanism
        What perturbed it, in words.
    scope
        The parties whose columns entered.
    losses
        The loss of a person's whole record to an observer that includes 0, 1, 2, … of the parties that hold noise for this
        opening; ``None`` where nothing is guaranteed. Locally perturbed values have one entry: no peer holds their noise.
    party_losses
        The same for a person's record at one party, where it is less than for the whole record.
    replaced
        The loss if a record is replaced by another instead of by nothing, by the number of colluders; empty if not known.
    nodes, threshold
        For a joint opening: who computed on shares, and how many of them learn nothing together.
    key_holders, keyed_losses
        For a guarantee that rests on a key: who holds it, and what takes the place of ``losses`` towards an observer that
        includes one of them; by default nothing is guaranteed.
    """

    mechanism: str
    scope: tuple[str, ...]
    losses: tuple[Loss | None, ...]
    party_losses: Mapping[str, tuple[Loss | None, ...]] = field(default_factory=dict)
    replaced: tuple[Loss | None, ...] = ()
    nodes: tuple[str, ...] = ()
    threshold: int = 0
    key_holders: tuple[str, ...] = ()
    keyed_losses: tuple[Loss | None, ...] = (None,)

    def replaced_loss_to(self, coalition: frozenset[str]) -> Loss | None:
        """Return what this opening tells a coalition if a record is replaced; ``None`` where nothing is known."""
        if not self.replaced or coalition & frozenset(self.key_holders):
            return None
        if self.nodes and len(coalition & frozenset(self.nodes)) > self.threshold:
            return None
        return self.replaced[min(len(coalition & frozenset(self.scope)), len(self.replaced) - 1)]

    def loss_to(self, coalition: frozenset[str], party: str | None = None) -> Loss | None:
        """Return what this opening tells a coalition about a person's record, whole or at one party outside the coalition."""
        return self._loss(
            len(coalition & frozenset(self.nodes)),
            len(coalition & frozenset(self.scope)),
            party,
            keyed=bool(coalition & frozenset(self.key_holders)),
        )

    def collusion(self, parties: tuple[str, ...]) -> int:
        """Return how many parties, whichever they are, tell the coordinator nothing more of this opening by pooling with it.

        At most all but one: a larger coalition has all the data.
        """
        everyone, coordinator = frozenset(parties), COORDINATOR in self.nodes

        def worst(count: int) -> list[Loss | None]:
            nodes = coordinator + min(count, len(everyone & frozenset(self.nodes)))
            keyed = count > 0 and bool(everyone & frozenset(self.key_holders))
            return [
                self._loss(nodes, min(count, max(len(self.scope) - 1, 0)), owner, keyed=keyed)
                for owner in (None, *self.party_losses)
            ]

        alone, covered = worst(0), 0
        while covered + 1 < len(parties) and worst(covered + 1) == alone:
            covered += 1
        return covered

    def _loss(self, nodes: int, colluders: int, party: str | None, *, keyed: bool) -> Loss | None:
        """Return the loss to an observer with so many of the nodes and of the noise holders, with the key or without it."""
        if self.nodes and nodes > self.threshold:
            return None
        losses = self.party_losses.get(party, self.losses) if party is not None else self.losses
        if keyed:
            losses = self.keyed_losses
        return losses[min(colluders, len(losses) - 1)]


@dataclass(frozen=True)
class PrivacyStatement:
    """For each observer and each unit, the (ε, δ) that holds, and what it rests on.

    Parameters
    ----------
    openings
        Everything that became visible.
    parties
        Who holds data.
    study_delta
        The δ at which ε is stated (0 for pure methods).
    local
        Whether local differential privacy holds: each person's record is randomised on its own before anything is combined.
    assumptions
        What the guarantee rests on, in words.

    Examples
    --------
    >>> half = Opening("randomised response", ("bank",), (Loss.of_pure(500_000_000),))
    >>> PrivacyStatement((half,), ("bank", "telco"), 0.0, local=True).epsilon(observer="telco")
    0.5
    """

    openings: tuple[Opening, ...]
    parties: tuple[str, ...]
    study_delta: float
    local: bool = False
    assumptions: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    relation: str = RELATION

    def epsilon(
        self, *, observer: str | tuple[str, ...] = COORDINATOR, unit: Unit = "person", party: str | None = None
    ) -> float:
        """Return ε towards an observer; infinite where nothing is guaranteed.

        Parameters
        ----------
        observer
            ``"coordinator"``, a party's name, or a tuple of names that pool what they see.
        unit
            ``"person"`` or ``"party"``.
        party
            With ``unit="party"``: whose record; the largest over all parties outside the coalition if not given.
        """
        losses = self._losses(self._coalition(observer), unit, party)
        return math.inf if losses is None else max((loss.epsilon(self.study_delta) for loss in losses), default=0.0)

    def delta(
        self, *, observer: str | tuple[str, ...] = COORDINATOR, unit: Unit = "person", party: str | None = None
    ) -> float:
        """Return the δ that goes with `epsilon`: 0 for a pure guarantee."""
        losses = self._losses(self._coalition(observer), unit, party)
        if losses is None or all(loss.pure is not None for loss in losses):
            return 0.0
        return self.study_delta

    def epsilon_if_replaced(self, *, observer: str | tuple[str, ...] = COORDINATOR) -> float:
        """Return ε for a person's whole record replaced by another one, at the same δ; infinite where it is not known."""
        coalition = self._coalition(observer)
        losses = [opening.replaced_loss_to(coalition) for opening in self.openings if set(opening.scope) - coalition]
        composed = _composed([losses])
        return math.inf if composed is None else composed[0].epsilon(self.study_delta)

    @property
    def collusion(self) -> int:
        """c: how many parties may pool what they see with the coordinator without weakening the promise.

        It is counted on the same losses that `epsilon` composes. It is 0 where parties hold a key that the promise rests on.
        """
        return min(
            (opening.collusion(self.parties) for opening in self.openings), default=max(len(self.parties) - 1, 0)
        )

    @property
    def threshold(self) -> int | None:
        """t: how many compute nodes together learn nothing; ``None`` where nothing is computed on shares."""
        return min((opening.threshold for opening in self.openings if opening.nodes), default=None)

    @property
    def coordinator_computes(self) -> bool:
        """Whether the coordinator is itself a compute node."""
        return any(COORDINATOR in opening.nodes for opening in self.openings)

    @property
    def pooling(self) -> str:
        """Who may pool what they see, in words: c, t, and what is assumed of a coordinator that is itself a compute node."""
        if math.isinf(self.epsilon()):
            return "nothing is guaranteed, whoever pools"
        words = f"c = {self.collusion} part{'y' if self.collusion == 1 else 'ies'} with the coordinator"
        if self.threshold is not None:
            words += f", t = {self.threshold} compute node{'' if self.threshold == 1 else 's'}"
        if not self.coordinator_computes:
            return words
        words, count = f"{words}; {COORDINATOR_ALONE}", self._largest_pool
        if math.isfinite(self.epsilon(observer=(COORDINATOR, *self.parties[:count]))):
            return words
        return f"{words}: ε = ∞ towards the coordinator with any {'party' if count == 1 else f'{count} parties'}"

    @property
    def _largest_pool(self) -> int:
        """With how many parties the coordinator is shown: with c, and where it computes itself with one too many."""
        return min(self.collusion + self.coordinator_computes, max(len(self.parties) - 1, 0))

    def table(self) -> pd.DataFrame:
        """Return a table with one row per observer and unit."""
        observers: list[str | tuple[str, ...]] = [COORDINATOR, *self.parties]
        for size in range(1, self._largest_pool + 1):
            observers += [(COORDINATOR, *group) for group in combinations(self.parties, size)]
        rows = [
            {
                "observer": observer if isinstance(observer, str) else " + ".join(observer),
                "unit": unit,
                "epsilon": self.epsilon(observer=observer, unit=unit),
                "delta": self.delta(observer=observer, unit=unit),
                "relation": self.relation,
                "epsilon_if_replaced": self.epsilon_if_replaced(observer=observer) if unit == "person" else math.nan,
                "mechanism": "; ".join(dict.fromkeys(opening.mechanism for opening in self.openings)),
                "assumption": " ".join(self.assumptions),
            }
            for observer in observers
            for unit in ("person", "party")
        ]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        """For notebooks: the table, every string escaped."""
        shown = self.table().drop(columns=["assumption", "mechanism"])
        words = "".join(f"<li>{html.escape(words)}</li>" for words in (self.pooling, *self.assumptions))
        return f"{shown.to_html(index=False, escape=True, border=0)}<ul>{words}</ul>"

    def _losses(self, coalition: frozenset[str], unit: Unit, party: str | None) -> list[Loss] | None:
        """Return composed losses: one for a person, or one per party outside the coalition for the party unit."""
        if unit == "person":
            return _composed([self._visible(coalition, None)])
        if unit != "party":
            raise BadInput("unit must be 'person' or 'party'.", remedy='For example unit="person".')
        if party is not None and party not in self.parties:
            raise BadInput(
                "party must be one of the study's parties.",
                remedy=f"Name one of {', '.join(self.parties)}, or leave it out.",
            )
        owners = [party] if party is not None else [name for name in self.parties if name not in coalition]
        return _composed([self._visible(coalition, owner) for owner in owners])

    def _visible(self, coalition: frozenset[str], owner: str | None) -> list[Loss | None]:
        """Return the losses of openings that used columns of the owner, or of anybody if ``None``, outside the coalition."""
        secret = (set(self.parties) if owner is None else {owner}) - coalition
        return [opening.loss_to(coalition, owner) for opening in self.openings if secret & set(opening.scope)]

    def _coalition(self, observer: str | tuple[str, ...]) -> frozenset[str]:
        names = {observer} if isinstance(observer, str) else set(observer)
        nodes = {node for opening in self.openings for node in opening.nodes}
        if not names or names - {COORDINATOR, *self.parties, *nodes}:
            raise BadInput(
                "observer must be 'coordinator', a party or node of the study, or a tuple of these.",
                remedy=f"Known here: {', '.join(sorted({COORDINATOR, *self.parties, *nodes}))}.",
            )
        return frozenset(names)


def _composed(groups: list[list[Loss | None]]) -> list[Loss] | None:
    if any(loss is None for group in groups for loss in group):
        return None
    return [total(loss for loss in group if loss is not None) for group in groups]
