"""Parties, a transport and what is public about them: the coordinator's whole view of a federation."""

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast

import pandas as pd

from colonnade.coding.columns import ColumnName, plain_names
from colonnade.coordinator import driver
from colonnade.coordinator.alignment import Aligned, Aligning
from colonnade.coordinator.driver import Outcome, Progress, Quote
from colonnade.coordinator.findings import Findings, MomentsRelease, account_row, findings_of, person_loss
from colonnade.coordinator.journal import Journal, check_schemas, open_connection
from colonnade.coordinator.protocols.moment_releases import GramRelease, UnionRelease
from colonnade.coordinator.splitting import Dividing
from colonnade.errors import (
    BadInput,
    NotEnoughComputeNodes,
    ProtocolError,
    SchemaMismatch,
)
from colonnade.plan import RELATION, About, Parameter, Plan, Unit
from colonnade.privacy.accounting import Budget, Price
from colonnade.privacy.laws import NoiseFamily
from colonnade.protocol import codec
from colonnade.protocol.agreement import FederationAgreement
from colonnade.protocol.messages import Accounted, Algorithm, Described, GetAccount, GetDescription, Reply, Request
from colonnade.result import COORDINATOR
from colonnade.schema import Column, Schema
from colonnade.secure.shamir import FEWEST_NODES, default_threshold
from colonnade.steps.registry import uses_compute_nodes
from colonnade.transport.direct import Direct, Endpoint, Transport

__all__ = ["Federation"]

_Kind = TypeVar("_Kind", bound=Reply)


class _Assembles(Protocol):
    """What `Federation.simulate` needs of a party object: its own layer knows how to open the others."""

    @classmethod
    def assemble(cls, parties: Mapping[str, Any], **options: Any) -> Mapping[str, Endpoint]: ...


class Federation(Aligning, Dividing):
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
    papers
        The signed papers of a federation of separate machines; their hash is then the federation's name in every plan.
    journal
        What is kept of studies, so that one that was cut short is taken up again; by default nothing.

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
        papers: FederationAgreement | None = None,
        journal: Journal | None = None,
    ) -> None:
        if type(collusion) is not int or collusion < 0:
            raise BadInput("collusion is a whole number, zero or more.")
        self.transport = transport
        self.parties = tuple(map(str, parties))  # a numpy string would not travel
        self.compute_nodes = tuple(map(str, compute_nodes))
        self.collusion = collusion
        described = self._everyone(GetDescription(alignment=alignment), Described)
        self.schemas: dict[str, Schema] = {name: Schema(dict(reply.schema)) for name, reply in described.items()}
        alignments = {(reply.alignment, reply.people) for reply in described.values()}
        if len(alignments) != 1 or any(reply.party != name for name, reply in described.items()):
            raise SchemaMismatch("The parties do not agree on one alignment of their rows.")
        (self.alignment, self.people) = alignments.pop()
        self.union = any(reply.union for reply in described.values())
        self.aligned_: Aligned | None = None
        self.identity = codec.federation_digest(self.schemas) if papers is None else papers.identity
        self.journal = journal
        if papers is not None:
            check_schemas(papers, self.schemas)

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
        aligned: bool = True,
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
        aligned
            ``False`` declares nothing public: rows have no order, and no study runs, until the parties `align` them.
        """
        if not isinstance(parties, Mapping) or not parties:
            raise BadInput("simulate takes a mapping from party names to cn.Party objects, at least one.")
        parties = {str(name) if isinstance(name, str) else name: party for name, party in parties.items()}
        kinds = {type(party) for party in parties.values()}
        if len(kinds) != 1 or not hasattr(next(iter(kinds)), "assemble"):
            raise BadInput("simulate takes cn.Party objects.", remedy="Wrap each table: cn.Party(frame, schema=...).")
        if isinstance(compute_nodes, str) or COORDINATOR in compute_nodes:
            raise BadInput(
                "compute_nodes takes a list of names; the coordinator joins in by itself where it is needed."
            )
        nodes = (*map(str, compute_nodes), *([COORDINATOR] if len(parties) + len(compute_nodes) < FEWEST_NODES else []))
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
            aligned=aligned,
        )
        return cls(Direct(guards), parties=tuple(parties), compute_nodes=nodes, collusion=collusion)

    @classmethod
    def connect(
        cls,
        path: str | Path,
        *,
        kit: str | Path | None = None,
        state: str | Path | None = None,
        patience: float | None = None,
        listen: str | None = None,
    ) -> "Federation":
        """Be the coordinator of a federation of separate machines, over NVIDIA FLARE's messaging (``colonnade[network]``).

        Parameters
        ----------
        path
            The federation's papers, ``federation.toml``, signed by every member.
        kit
            The coordinator's start-up kit; by default ``kits/coordinator`` or ``kit`` beside the papers.
        state
            Where studies under way are kept; by default ``coordinator-state`` beside the papers.
        patience
            Seconds that a party may be out of reach before a call fails; by default 45.
        listen
            The address of this machine to listen on, where it is not the host name in the papers; ``"0.0.0.0"`` for all.
        """
        connection = open_connection(path, kit=kit, state=state, patience=patience, listen=listen)
        papers = connection.papers
        try:
            return cls(
                connection.transport,
                parties=papers.parties,
                compute_nodes=papers.nodes,
                collusion=papers.collusion,
                papers=papers,
                journal=connection.journal,
            )
        except BaseException:
            connection.transport.close()
            connection.journal.close()
            raise

    # What is public -----------------------------------------------------------------------------------------------------

    def column(self, name: str) -> tuple[str, str, Column]:
        """Resolve ``"party.column"`` to its party, its own name and its public description."""
        party, column = ColumnName.of(name)
        if party not in self.schemas:
            raise BadInput(
                f"{str(name)!r} does not name a column of this federation.",
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
        return [str(ColumnName(party, column)) for party in self.parties for column in self.schemas[party]]

    def describe(self, columns: Sequence[str] | None = None) -> dict[str, Column]:
        """Return the public descriptions of some columns (all by default), in the federation's order."""
        found = {name: self.column(name)[2] for name in (self.columns() if columns is None else plain_names(columns))}
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
        accounts = self.accounts()
        if unit == "person":
            return self._person_row(accounts)
        rows = pd.DataFrame([account_row(reply) for reply in accounts.values()]).set_index("party")
        if party is None:
            return rows
        if party not in rows.index:
            raise BadInput("There is no such party in this federation.")
        return rows.loc[party]

    def accounts(self) -> dict[str, Accounted]:
        """Return every party's own account, line by line: its cap, what it has released and for how much."""
        return self._everyone(GetAccount(), Accounted)

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
        return driver.agree(plan, self.transport, self.journal)

    def run(
        self, algorithm: Algorithm, plan: Plan, progress: Progress | None = None, *, about: About | None = None
    ) -> Outcome:
        """Run a study; ``about`` is what the parties are told about it, beside the plan."""
        return driver.conduct(algorithm, plan, self.transport, progress or _silent, self.journal, about)

    def study(
        self, algorithm: Algorithm, plan: Plan, *, title: str, local: bool = False, progress: Progress | None = None
    ) -> Findings:
        """Run a study and draw up its papers."""
        outcome = self.run(algorithm, plan, progress, about=About(title=title))
        return findings_of(outcome, self.schemas, title=title, local=local)

    def moments(
        self,
        columns: Sequence[str] | None = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        signed: Sequence[str] = (),
        noise: NoiseFamily = "gaussian",
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
        kind = UnionRelease if self.union else GramRelease
        algorithm = kind(described, Price.of(epsilon, delta), tuple(signed), noise, scale, row_norms)
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
        for part in (self.transport, self.journal):
            close: Callable[[], None] | None = getattr(part, "close", None)
            if close is not None:
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        columns = sum(len(schema) for schema in self.schemas.values())
        return f"Federation({', '.join(self.parties)}: {self.people:,} people, {columns} columns)"

    def _repr_html_(self) -> str:
        """For notebooks: what is public about the columns, every string escaped; no party is asked anything."""
        rows = [(name, repr(column)) for name, column in self.describe().items()]
        table = pd.DataFrame(rows, columns=["column", "public description"])
        return f"<p>{html.escape(repr(self))}</p>{table.to_html(index=False, escape=True, border=0)}"

    def _everyone(self, request: Request, kind: "type[_Kind]") -> dict[str, _Kind]:
        replies = driver.ask(dict.fromkeys(self.parties, request), self.transport)
        if any(not isinstance(reply, kind) for reply in replies.values()):
            raise ProtocolError("A party answered with something else.")
        return cast("dict[str, _Kind]", replies)

    def _person_row(self, accounts: Mapping[str, Accounted]) -> pd.Series:
        spent = person_loss(accounts.values())
        delta = max((reply.cap_delta for reply in accounts.values()), default=0.0)
        return pd.Series({"spent": spent.epsilon(delta), "delta": delta}, name="person")


def _silent(_: str) -> None:
    """No progress is shown unless somebody asked for it."""
