"""The privacy statement of a study: who could see what, at what price.

An *opening* is one value that became visible. A statement composes openings for any observer: the coordinator, a party, or a
coalition of them, for either unit. Openings of one study use independent randomness, so their losses add.

A `TrustPicture` says the same in two lines for somebody who is no specialist: who learns what, and when the guarantee
fails. Previews, receipts and reports open with them.
"""

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

import pandas as pd

from colonnade.errors import BadInput
from colonnade.plan import EVENT, RELATION
from colonnade.privacy.accounting import NOTHING, Loss, Unit, total, valid_delta

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
    score_holders
        For Newton steps: who holds a part of everybody's score alone, and who knows the part that is left. Nothing is guaranteed
        towards an observer that includes all of the first and one of the second, whether or not any of them computed on shares.
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
    score_holders: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def followed_by_others(self) -> "Opening":
        """Return the same with its losses as parts of what several plans cost."""

        def tagged(losses: tuple[Loss | None, ...]) -> tuple[Loss | None, ...]:
            return tuple(None if one is None else one.followed_by_others() for one in losses)

        return replace(
            self,
            losses=tagged(self.losses),
            party_losses={party: tagged(losses) for party, losses in self.party_losses.items()},
            replaced=tagged(self.replaced),
            keyed_losses=tagged(self.keyed_losses),
        )

    def replaced_loss_to(self, coalition: frozenset[str]) -> Loss | None:
        """Return what this opening tells a coalition if a record is replaced; ``None`` where nothing is known."""
        if not self.replaced or coalition & frozenset(self.key_holders) or self._knows_scores(coalition):
            return None
        if self.nodes and len(coalition & frozenset(self.nodes)) > self.threshold:
            return None
        return self.replaced[min(len(coalition & frozenset(self.scope)), len(self.replaced) - 1)]

    def loss_to(self, coalition: frozenset[str], party: str | None = None) -> Loss | None:
        """Return what this opening tells a coalition about a person's record, whole or at one party outside the coalition."""
        if self._knows_scores(coalition):
            return None
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
            if count > len(self.score_holders[0]) and self._knows_scores(everyone):
                return [None]
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

    def _knows_scores(self, coalition: frozenset[str]) -> bool:
        """Return whether a coalition has all parts of everybody's score."""
        alone, told = self.score_holders
        return coalition.issuperset(alone) and not coalition.isdisjoint(told)

    def _loss(self, nodes: int, colluders: int, party: str | None, *, keyed: bool) -> Loss | None:
        """Return the loss to an observer with some of the nodes and of the noise holders, with the key or without it."""
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
        self,
        delta: float | None = None,
        *,
        observer: str | tuple[str, ...] = COORDINATOR,
        unit: Unit = "person",
        party: str | None = None,
    ) -> float:
        """Return ε towards an observer; infinite where nothing is guaranteed.

        Parameters
        ----------
        delta
            The δ at which ε is wanted; the study's own if it is not given.
        observer
            ``"coordinator"``, a party's name, or a tuple of names that pool what they see.
        unit
            ``"person"`` or ``"party"``.
        party
            With ``unit="party"``: whose record; the largest over all parties outside the coalition if not given.
        """
        losses = self._losses(self._coalition(observer), unit, party)
        at = self.study_delta if delta is None else valid_delta(delta)
        return math.inf if losses is None else max((loss.epsilon(at) for loss in losses), default=0.0)

    def delta(
        self,
        epsilon: float | None = None,
        *,
        observer: str | tuple[str, ...] = COORDINATOR,
        unit: Unit = "person",
        party: str | None = None,
    ) -> float:
        """Return the δ that goes with `epsilon`: 0 for a pure guarantee; or the smallest δ at an ε of your own."""
        losses = self._losses(self._coalition(observer), unit, party)
        if epsilon is not None:
            if not 0 <= epsilon < math.inf:
                raise BadInput("epsilon is not negative, and finite.", remedy="For example privacy_.delta(1.0).")
            return 1.0 if losses is None else max((loss.delta(epsilon) for loss in losses), default=0.0)
        if losses is None or all(loss.pure is not None for loss in losses):
            return 0.0
        return self.study_delta

    def mu(
        self, *, observer: str | tuple[str, ...] = COORDINATOR, unit: Unit = "person", party: str | None = None
    ) -> float | None:
        """Return μ of Gaussian differential privacy towards an observer; ``None`` where none is known.

        The records of two neighbouring tables are told apart no more easily than one draw of N(0, 1) from one of N(μ, 1).
        """
        losses = self._losses(self._coalition(observer), unit, party)
        found = [None] if losses is None else [loss.mu for loss in losses]
        return None if None in found else max((one for one in found if one is not None), default=0.0)

    def misses(
        self,
        alarms: float,
        *,
        observer: str | tuple[str, ...] = COORDINATOR,
        unit: Unit = "person",
        party: str | None = None,
    ) -> float:
        """Return which share of people an observer misses, at least, whose test raises so many false alarms.

        ``misses(0.05)`` is 0.9 if nobody can say of more than a tenth of the people that they are in the tables without saying
        it of a twentieth of those who are not. Without any information it is 1 − alarms.
        """
        losses = self._losses(self._coalition(observer), unit, party)
        return 0.0 if losses is None else min((loss.misses(alarms) for loss in losses), default=1 - alarms)

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
            return "nothing is guaranteed, even if nobody pools"
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
                "mu": math.nan if (mu := self.mu(observer=observer, unit=unit)) is None else mu,
                "relation": self.relation,
                "epsilon_if_replaced": self.epsilon_if_replaced(observer=observer) if unit == "person" else math.nan,
                "mechanism": "; ".join(dict.fromkeys(opening.mechanism for opening in self.openings)),
                "assumption": " ".join(self.assumptions),
            }
            for observer in observers
            for unit in ("person", "party")
        ]
        return pd.DataFrame(rows)

    @property
    def trust(self) -> "TrustPicture":
        """Who learns what, and when the guarantee fails: two lines for somebody who is no specialist."""
        return TrustPicture(self)

    def __str__(self) -> str:
        """Return the statement for reading: the trust picture, the table, and what it rests on."""
        shown = self.table()[["observer", "unit", "epsilon", "delta", "mu", "epsilon_if_replaced"]]
        figures = shown.to_string(index=False, na_rep="", float_format=figure)
        rests = [f"- {words}" for words in (f"may pool: {self.pooling}", *self.assumptions)]
        return "\n".join([*self.trust.lines, "", figures, "", *rests])

    def _repr_html_(self) -> str:
        """For notebooks: the trust picture and the table, every string escaped."""
        shown = self.table().drop(columns=["assumption", "mechanism"])
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self.trust.lines)
        words = "".join(f"<li>{html.escape(words)}</li>" for words in (self.pooling, *self.assumptions))
        return f"{lines}{shown.to_html(index=False, escape=True, border=0, na_rep='')}<ul>{words}</ul>"

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


MOST_COALITIONS = 2_000
MOST_COMPOSED = 50
"""How many coalitions a trust picture looks at, and for how many it composes losses."""


class TrustPicture:
    """A privacy statement in two lines, without a term that needs explaining.

    Parameters
    ----------
    statement
        What holds, towards whom.

    Examples
    --------
    >>> noisy = Opening("a count", ("bank", "telco"), (Loss.of_pure(10**9),), nodes=("bank", "telco", "coordinator"), threshold=1)
    >>> PrivacyStatement((noisy,), ("bank", "telco"), 0.0).trust.holds.split(".")[0]
    'The guarantee fails if the coordinator and bank, or the coordinator and telco, pool what they see'
    """

    def __init__(self, statement: PrivacyStatement) -> None:
        self._statement = statement
        self._observers = (COORDINATOR, *statement.parties)
        broken = [one for one in self._observers if self._is_broken(frozenset({one}))]
        self.key_holders = tuple(one for one in broken if self._only_by_key(one))
        """Parties with a key that undoes the noise of what the coordinator received, if it showed them."""
        self.exposed = tuple(one for one in broken if one not in self.key_holders)
        """Observers that learn exact values, alone as they are."""

    @property
    def learns(self) -> str:
        """Who learns what."""
        return f"Who learns what: {self._learned()}"

    @property
    def holds(self) -> str:
        """When the guarantee fails."""
        if COORDINATOR in self.exposed:
            return "There is no guarantee. No noise protects anybody from the coordinator in this study."
        broken, words = self._broken(), self._weaker()
        if self.exposed:
            words.append(f"The guarantee fails if {_listed(self.exposed, 'or')} passes on what it learned.")
        if self.key_holders:
            words.append(
                f"The guarantee fails if the coordinator shows what it received to {_listed(self.key_holders, 'or')}: "
                "the noise rests on a key that they hold."
            )
        if broken:
            words.append(f"The guarantee fails if {_coalitions(broken, self._has_secret)} pool what they see.")
        if not words:
            words.append("The guarantee holds even if all pool what they see.")
        if any(len(opening.scope) > 1 for opening in self._statement.openings):
            words.append("Every party has to follow the protocol.")
        return " ".join(words)

    @property
    def lines(self) -> tuple[str, str]:
        """Both lines."""
        return self.learns, self.holds

    def __str__(self) -> str:
        return "\n".join(self.lines)

    # Who learns what ----------------------------------------------------------------------------------------------------

    def _learned(self) -> str:
        bounded = [one for one in self._observers if one not in (*self.exposed, *self.key_holders)]
        words = []
        if bounded:
            whom = "the coordinator and the parties" if len(bounded) == len(self._observers) else _listed(bounded)
            verb = "learns" if len(bounded) == 1 else "learn"
            words.append(self._bounded(f"{whom} {verb}", max(self._statement.epsilon(observer=one) for one in bounded)))
        if self.exposed:
            verb = "learns" if len(self.exposed) == 1 else "learn"
            words.append(
                f"{_listed(self.exposed)} {verb} exact values, and nothing limits what they tell about a person."
            )
        return " ".join([words[0], *(f"T{word[1:]}" if word.startswith("the ") else word for word in words[1:])])

    def _bounded(self, whom: str, epsilon: float) -> str:
        if epsilon == 0:
            return f"{whom} nothing about any person."
        delta = self._statement.study_delta
        chance = f", except with a chance of 1 in {math.floor(1 / delta + 1e-6):,}" if delta else ""
        of_what = (
            "one step of the stated size in a person's value (the value itself is not hidden)"
            if self._statement.relation == EVENT
            else "one person"
        )
        return (
            f"{whom} noisy figures only. They change the odds of any guess about {of_what} by a factor of at most "
            f"{figure(math.exp(min(epsilon, 700.0)), 2)} (ε = {figure(epsilon)}){chance}."
        )

    # When the guarantee fails -----------------------------------------------------------------------------------------

    def _broken(self) -> list[frozenset[str]]:
        """Return the smallest coalitions towards which nothing is guaranteed, though it is towards each member of them."""
        nodes = [node for opening in self._statement.openings for node in opening.nodes]
        left_out = (*self.exposed, *self.key_holders)
        members = [one for one in dict.fromkeys((*self._observers, *nodes)) if one not in left_out]
        for size in range(2, len(members) + 1):
            every = map(frozenset, islice(combinations(members, size), MOST_COALITIONS))
            found = [group for group in every if self._is_broken(group)]
            if found:
                return found
        return []

    def _weaker(self) -> list[str]:
        """Return what holds towards the coordinator with one party too many, where that is less and not nothing."""
        statement, count = self._statement, self._statement.collusion + 1
        if count >= len(statement.parties):
            return []
        groups = islice(combinations(statement.parties, count), MOST_COMPOSED)
        worst = max(statement.epsilon(observer=(COORDINATOR, *group)) for group in groups)
        if math.isinf(worst) or worst <= statement.epsilon():
            return []
        parties = "any party" if count == 1 else f"any {count} parties"
        return [f"Only ε = {figure(worst)} is guaranteed if the coordinator and {parties} pool what they see."]

    def _is_broken(self, coalition: frozenset[str]) -> bool:
        secret = [opening for opening in self._statement.openings if set(opening.scope) - coalition]
        return any(opening.loss_to(coalition) is None for opening in secret)

    def _only_by_key(self, one: str) -> bool:
        """Return whether an observer is told nothing exact, and holds a key to the noise of what the coordinator received."""
        alone = frozenset({one})
        broken = [
            opening
            for opening in self._statement.openings
            if set(opening.scope) - alone and opening.loss_to(alone) is None
        ]
        return all(one in opening.key_holders and opening.losses[0] not in (None, NOTHING) for opening in broken)

    def _has_secret(self, coalition: frozenset[str]) -> bool:
        return any(set(opening.scope) - coalition for opening in self._statement.openings)


def _coalitions(broken: Sequence[frozenset[str]], has_secret: Callable[[frozenset[str]], bool]) -> str:
    """Return coalitions in words: each by name, or "any two of" where they are many and all of a kind."""
    size, members = len(broken[0]), list(dict.fromkeys(one for group in broken for one in _ordered(group)))
    alike = {frozenset(group) for group in combinations(members, size) if has_secret(frozenset(group))}
    if len(broken) > 3 and alike == set(broken):
        return f"any {size} of {_listed(_ordered(members))}"
    return _listed([_listed(_ordered(group)) for group in broken], ", or", last=",")


def _ordered(group: Iterable[str]) -> list[str]:
    return sorted(group, key=lambda one: (one != COORDINATOR, one))


def _listed(names: Sequence[str], between: str = "and", *, last: str = "") -> str:
    shown = [f"the {name}" if name == COORDINATOR else name for name in names]
    if len(shown) == 1:
        return shown[0]
    gap = between if between.startswith(",") else f" {between}"
    return f"{', '.join(shown[:-1])}{gap} {shown[-1]}{last}"


def figure(value: float, digits: int = 4) -> str:
    """Return a figure of a statement as people read it; ∞ where nothing is guaranteed."""
    if math.isinf(value):
        return "∞"
    short = f"{value:.{digits}g}"
    return f"{value:.0e}" if value >= 1e6 else f"{float(short):,.0f}" if "e+" in short else short


def _composed(groups: list[list[Loss | None]]) -> list[Loss] | None:
    if any(loss is None for group in groups for loss in group):
        return None
    return [total(loss for loss in group if loss is not None) for group in groups]
