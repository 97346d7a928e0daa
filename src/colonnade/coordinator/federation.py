"""Parties, a transport and what is public about them: the coordinator's whole view of a federation."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast

import pandas as pd

from colonnade.coordinator import driver
from colonnade.coordinator.algorithms.gram_release import GramRelease
from colonnade.coordinator.driver import Outcome, Progress, Quote
from colonnade.coordinator.findings import Findings, findings_of
from colonnade.coordinator.release import MomentsRelease
from colonnade.errors import BadInput, BudgetExceeded, NotEnoughComputeNodes, ProtocolError, SchemaMismatch
from colonnade.node.kinds import uses_compute_nodes
from colonnade.plan import RELATION, Parameter, Plan, Unit
from colonnade.privacy.joint_noise import Law
from colonnade.privacy.loss import NOTHING, Loss, total
from colonnade.privacy.price import NANO, Budget, Price
from colonnade.protocol import codec
from colonnade.protocol.messages import Accounted, Described, GetAccount, GetDescription, Reply, Request
from colonnade.protocol.rounds import Algorithm
from colonnade.result import COORDINATOR
from colonnade.schema import Column, Schema
from colonnade.secure.shamir import FEWEST_NODES, default_threshold
from colonnade.transport.base import Endpoint, Transport
from colonnade.transport.direct import Direct

__all__ = ["Federation"]

_Kind = TypeVar("_Kind", bound=Reply)


class _Assembles(Protocol):
    """What `Federation.simulate` needs of a party object: its own layer knows how to open the others."""

    @classmethod
    def assemble(cls, parties: Mapping[str, Any], **options: Any) -> Mapping[str, Endpoint]: ...


class Federation:
    """Several organisations that hold different columns about the same people.

    Made by `Federation.simulate` (all parties in this process, with real gates, ledgers and codec), or from a transport that
    reaches parties elsewhere.

    Parameters
    ----------
    transport
        How to reach the parties.
    parties
        Their names, in the order in which their columns are listed.
    compute_nodes
        Members without data that compute on shares; ``"coordinator"`` among them if it is one.
    collusion
        c: how many parties may pool what they see with the coordinator without weakening the promise of secure methods.
    alignment
        Which agreed order of rows; by default the one that the parties were opened with.

    Examples
    --------
    >>> import colonnade as cn, pandas as pd
    >>> people = pd.DataFrame({"id": range(100), "smoker": ["no", "yes"] * 50})
    >>> clinic = cn.Party(people, schema=cn.Schema(smoker=cn.Category(["no", "yes"])))
    >>> federation = cn.Federation.simulate({"clinic": clinic}, id="id", budget=cn.Budget(epsilon=1.0))
    >>> federation.people
    100
    """

    def __init__(
        self,
        transport: Transport,
        *,
        parties: Sequence[str],
        compute_nodes: Sequence[str] = (),
        collusion: int = 1,
        alignment: str = "",
    ) -> None:
        if type(collusion) is not int or collusion < 0:
            raise BadInput("collusion is a whole number, zero or more.")
        self.transport = transport
        self.parties = tuple(parties)
        self.compute_nodes = tuple(compute_nodes)
        self.collusion = collusion
        described = self._everyone(GetDescription(alignment=alignment), Described)
        self.schemas: dict[str, Schema] = {name: Schema(dict(reply.schema)) for name, reply in described.items()}
        alignments = {(reply.alignment, reply.people) for reply in described.values()}
        if len(alignments) != 1 or any(reply.party != name for name, reply in described.items()):
            raise SchemaMismatch("The parties do not agree on one alignment of their rows.")
        (self.alignment, self.people) = alignments.pop()
        self.identity = codec.federation_digest(self.schemas)

    @classmethod
    def simulate(
        cls,
        parties: Mapping[str, Any],
        *,
        id: str,  # noqa: A002  # the public name is part of the contract
        budget: Budget,
        compute_nodes: Sequence[str] = (),
        collusion: int = 1,
        policies: Mapping[str, Any] | None = None,
        ledger_dir: str | Path | None = None,
        test_key: bytes | None = None,
    ) -> "Federation":
        """Bring up every party in this process.

        Parameters
        ----------
        parties
            `Party` objects by name; columns are then named ``"party.column"``.
        id
            The column that all tables share. People present in every table take part; who they are is thereby public.
        budget
            Each party's cap, enforced by its own ledger.
        compute_nodes
            Members without data that help to compute on shares. With two parties and none named, the coordinator is the third
            node, and secure methods then assume that it colludes with neither party.
        collusion
            How many parties may pool what they see with the coordinator without weakening the promise of secure methods.
        policies
            A `Policy` by party name, where the default (answer anything private within the cap) will not do.
        ledger_dir
            Where ledgers are kept; by default a temporary directory that ends with the process.
        test_key
            For tests only: makes all noise a function of this key, hence worthless; the ledgers are marked as test ledgers.
        """
        if not isinstance(parties, Mapping) or not parties:
            raise BadInput("simulate takes a mapping from party names to cn.Party objects, at least one.")
        kinds = {type(party) for party in parties.values()}
        if len(kinds) != 1 or not hasattr(next(iter(kinds)), "assemble"):
            raise BadInput("simulate takes cn.Party objects.", remedy="Wrap each table: cn.Party(frame, schema=...).")
        if isinstance(compute_nodes, str) or COORDINATOR in compute_nodes:
            raise BadInput(
                "compute_nodes takes a list of names; the coordinator joins in by itself where it is needed."
            )
        nodes = (*compute_nodes, *([COORDINATOR] if len(parties) + len(compute_nodes) < FEWEST_NODES else []))
        assembling = cast("type[_Assembles]", kinds.pop())
        guards = assembling.assemble(
            parties,
            id=id,
            budget=budget,
            policies=policies,
            compute_nodes=nodes,
            collusion=collusion,
            ledger_dir=ledger_dir,
            test_key=test_key,
        )
        return cls(Direct(guards), parties=tuple(parties), compute_nodes=nodes, collusion=collusion)

    # What is public -----------------------------------------------------------------------------------------------------

    def column(self, name: str) -> tuple[str, str, Column]:
        """Resolve ``"party.column"`` to its party, its own name and its public description."""
        if not isinstance(name, str):
            raise BadInput("Columns are named 'party.column'.")
        party, dot, column = name.partition(".")
        if not dot or party not in self.schemas:
            raise BadInput(
                f"{name!r} does not name a column of this federation.",
                remedy=f"Columns are named 'party.column'; the parties are {', '.join(self.parties)}.",
            )
        if column not in self.schemas[party]:
            raise SchemaMismatch(
                f"Party {party!r} has no column {column!r} in its schema.",
                remedy=f"Its columns are {', '.join(self.schemas[party])}.",
            )
        return party, column, self.schemas[party][column]

    def columns(self) -> list[str]:
        """Return every column of the federation: parties as given, then schema order."""
        return [f"{party}.{column}" for party in self.parties for column in self.schemas[party]]

    def describe(self, columns: Sequence[str] | None = None) -> dict[str, Column]:
        """Return the public descriptions of some columns (all by default), in the federation's order."""
        wanted = self.columns() if columns is None else columns
        if isinstance(wanted, str) or not isinstance(wanted, Sequence) or not wanted:
            raise BadInput("columns takes a list such as ['bank.age', 'telco.minutes'].")
        found = {name: self.column(name)[2] for name in wanted}
        if len(found) != len(wanted):
            raise BadInput("A column is named twice.")
        return {name: found[name] for name in self.columns() if name in found}

    def budget(self, party: str | None = None, *, unit: Unit = "party") -> Any:
        """Return what each ledger has spent and what remains.

        Parameters
        ----------
        party
            One party's row instead of the table.
        unit
            ``"person"`` adds up what all parties have released about one person: a figure that no single ledger caps.
        """
        accounts = self._everyone(GetAccount(), Accounted)
        if unit == "person":
            return self._person_row(accounts)
        rows = pd.DataFrame([_account_row(reply) for reply in accounts.values()]).set_index("party")
        if party is None:
            return rows
        if party not in rows.index:
            raise BadInput("There is no such party in this federation.")
        return rows.loc[party]

    # Studies ------------------------------------------------------------------------------------------------------------

    def plan(
        self,
        algorithm: Algorithm,
        *,
        task: str,
        method: str,
        price: Price | None,
        unit: Unit,
        parameters: Mapping[str, Parameter],
        repeat: int = 1,
        relation: str = RELATION,
    ) -> Plan:
        """Write a study down: the same arguments give the same plan, hence the same request."""
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise BadInput("repeat must be a positive whole number.")
        if unit not in ("person", "party"):
            raise BadInput("unit must be 'person' or 'party'.")
        steps = algorithm.steps()
        asked = tuple(name for name in self.parties if name in {step.party for step in steps})
        secure = uses_compute_nodes(steps)
        nodes = self._nodes_for(asked) if secure else ()
        threshold = default_threshold(len(nodes)) if secure else 0
        return Plan(
            task=task,
            method=method,
            parameters=dict(parameters),
            unit=unit,
            price=price,
            relation=relation,
            federation=self.identity,
            alignment=self.alignment,
            people=self.people,
            parties=asked,
            compute_nodes=nodes,
            threshold=threshold,
            collusion=min(self.collusion, threshold, len(asked) - 1),
            steps=steps,
            repeat=repeat,
        )

    def _nodes_for(self, asked: tuple[str, ...]) -> tuple[str, ...]:
        """Choose who computes on shares: the study's parties and the dataless nodes; if too few, other parties, then us."""
        helpers = [node for node in self.compute_nodes if node != COORDINATOR]
        idle = [party for party in self.parties if party not in asked]
        nodes = [*asked, *helpers]
        for candidate in (*idle, *(node for node in self.compute_nodes if node == COORDINATOR)):
            if len(nodes) < FEWEST_NODES:
                nodes.append(candidate)
        if len(nodes) < FEWEST_NODES:
            raise NotEnoughComputeNodes("A secure method needs three compute nodes, and this federation has fewer.")
        return tuple(nodes)

    def quote(self, plan: Plan) -> Quote:
        """Ask every party what a plan would cost it. Spends nothing and touches no data."""
        self._require_delta(plan)
        return driver.agree(plan, self.transport)

    def run(self, algorithm: Algorithm, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Run a study."""
        self._require_delta(plan)
        return driver.conduct(algorithm, plan, self.transport, progress or _silent)

    def study(
        self, algorithm: Algorithm, plan: Plan, *, title: str, local: bool = False, progress: Progress | None = None
    ) -> Findings:
        """Run a study and draw up its papers."""
        return findings_of(self.run(algorithm, plan, progress), title=title, local=local)

    def moments(
        self,
        columns: Sequence[str] | None = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        signed: Sequence[str] = (),
        noise: Law = "gaussian",
        scale: int | None = None,
        row_norms: Mapping[str, float] | None = None,
        repeat: int = 1,
    ) -> MomentsRelease:
        """Release one noisy Gram matrix; moment-based estimators accept it in place of a federation at no further price.

        Parameters
        ----------
        columns
            Which columns; all of them by default.
        epsilon, delta, unit
            The price, and for whom; δ must be positive.
        signed
            Two-level categories to code as one ±1 column instead of two indicators: half the noise, for a binary target.
        noise
            ``"gaussian"`` or ``"skellam"`` (paper 002).
        scale
            γ, the fixed-point scale; by default 4,096 (64 for Skellam noise).
        row_norms
            Party to the length to which it clips its coded rows; less noise, some bias.
        repeat
            A higher number is a new draw at a new price.
        """
        described = self.describe(columns)
        algorithm = GramRelease(described, Price.of(epsilon, delta), tuple(signed), noise, scale, row_norms)
        plan = self.plan(
            algorithm,
            task="moments",
            method="secure",
            price=algorithm.price,
            unit=unit,
            parameters={},  # equal releases are one release, whatever is then made of them
            repeat=repeat,
        )
        findings = self.study(algorithm, plan, title="moments(method='secure')")
        return MomentsRelease(findings.value, described, findings)

    def close(self) -> None:
        """Close the transport, and with it ledgers opened by `simulate`."""
        close: Callable[[], None] | None = getattr(self.transport, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        columns = sum(len(schema) for schema in self.schemas.values())
        return f"Federation({', '.join(self.parties)}: {self.people:,} people, {columns} columns)"

    def _everyone(self, request: Request, kind: "type[_Kind]") -> dict[str, _Kind]:
        replies = driver.ask(dict.fromkeys(self.parties, request), self.transport)
        if any(not isinstance(reply, kind) for reply in replies.values()):
            raise ProtocolError("A party answered with something else.")
        return cast("dict[str, _Kind]", replies)

    def _require_delta(self, plan: Plan) -> None:
        """A study's δ is at most every cap's: a ledger answers for its own δ, and a statement at a larger one promises less."""
        if plan.price is None or plan.price.delta == 0:
            return
        replies = driver.ask(dict.fromkeys(plan.parties, GetAccount()), self.transport)
        for party, reply in replies.items():
            if isinstance(reply, Accounted) and plan.price.delta > reply.cap_delta:
                raise BudgetExceeded(
                    f"The study's delta of {plan.price.delta:g} exceeds the {reply.cap_delta:g} of the cap of {party!r}.",
                    remedy="Ask for a delta of at most the cap's; federation.budget() shows it.",
                )

    def _person_row(self, accounts: Mapping[str, Accounted]) -> pd.Series:
        spent = _person_loss(accounts.values())
        delta = max((reply.cap_delta for reply in accounts.values()), default=0.0)
        return pd.Series({"spent": spent.epsilon(delta), "delta": delta}, name="person")


def _silent(_: str) -> None:
    """No progress is shown unless somebody asked for it."""


def _account_row(reply: Accounted) -> dict[str, object]:
    spent = Loss.from_bytes(reply.spent)
    return {
        "party": reply.party,
        "spent": spent.epsilon(reply.cap_delta),
        "remaining": _room(spent, reply.cap_nano, reply.cap_delta),
        "epsilon": reply.cap_nano / NANO,
        "delta": reply.cap_delta,
        "releases": sum(entry.loss is not None for entry in reply.entries),
        "nonprivate": sum(entry.loss is None for entry in reply.entries),
    }


def _room(spent: Loss, cap_nano: int, delta: float) -> float:
    """Return the largest pure ε that one more release may cost: composition, not subtraction, decides."""
    low, high = 0, cap_nano
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if (spent + Loss.of_pure(middle)).fits(cap_nano, delta) else (low, middle - 1)
    return low / NANO


def _person_loss(accounts: Any) -> Loss:
    """Compose all parties' releases; one that several parties paid for together counts once, at its largest."""
    alone: list[Loss] = []
    joint: dict[str, Loss] = {}
    for reply in accounts:
        for entry in reply.entries:
            if entry.loss is None:
                continue
            loss = Loss.from_bytes(entry.loss)
            if entry.joint is None:
                alone.append(loss)
            else:
                joint[entry.joint] = max(joint.get(entry.joint, NOTHING), loss, key=lambda one: one.renyi)
    return total([*alone, *joint.values()])
