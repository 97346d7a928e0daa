"""The coordinator's view of a federation: its parties, how to reach them, and what is public about them."""

import copy
import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self, TypeVar, cast, overload

import pandas as pd

from colonnade.coordinator import driver
from colonnade.coordinator.alignment import Alignment, Mode, Size, align
from colonnade.coordinator.driver import Analyst, StudyWords, complete_plan, every_account
from colonnade.coordinator.findings import Findings, MomentsRelease, budget_table, findings_of
from colonnade.coordinator.moments import release_moments
from colonnade.coordinator.opening import SimulatedParty, check_schemas, one_order, open_connection, simulated_nodes
from colonnade.coordinator.splitting import delivered, holder_of_deliveries, split
from colonnade.coordinator.tightening import TightenedColumns
from colonnade.errors import BadInput, ProtocolError
from colonnade.plan import RELATION, Parameter, Plan
from colonnade.privacy.accounting import Budget, Price, Unit
from colonnade.privacy.laws import NoiseFamily
from colonnade.protocol import codec
from colonnade.protocol.agreement import FederationAgreement
from colonnade.protocol.messages import Accounted, Algorithm, Described, GetDescription, Reply, Request
from colonnade.runtime.progress import Progress
from colonnade.schema import Schema
from colonnade.secure.shamir import Compute, compute_on
from colonnade.steps.alignment import IdRules
from colonnade.transport.direct import Direct, Transport

_Policy = TypeVar("_Policy")
_Reply = TypeVar("_Reply", bound=Reply)


class Federation(TightenedColumns):
    """Several organisations that hold different columns about the same people.

    Made by `Federation.simulate` (all parties in this process, with real gates, ledgers and messages) or by `Federation.connect`
    (parties on other machines). Several threads may use one at once: their studies run side by side.

    Parameters
    ----------
    transport
        How to reach the parties.
    parties
        Their names, in the order in which their columns are listed.
    compute_nodes
        Members without data that compute on shares; ``"coordinator"`` among them if it is one.
    committee
        The only members that compute on shares; by default every party that takes part, and the compute nodes.
    collusion
        c: how many parties may pool what they see with the coordinator without weakening the guarantee of secure methods. Noise
        covers c of a study's parties, or all but one of them; the threshold of its compute nodes is c or more.
    alignment
        The name of an agreed order of rows; by default the one that the parties were opened with.
    agreement
        The signed agreement of a federation of separate machines; its hash is then the federation's name in every plan.
    journal
        Where studies are recorded, so that one that was cut short is taken up again; by default nowhere.
    analyst
        Who asks, and signs every study; by default nobody, and the parties record what the coordinator says.

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
        committee: Sequence[str] | None = None,
        collusion: int = 1,
        alignment: str = "",
        agreement: FederationAgreement | None = None,
        journal: driver.Journal | None = None,
        analyst: Analyst | None = None,
    ) -> None:
        if type(collusion) is not int or collusion < 0:
            raise BadInput("collusion must be a whole number, zero or more.", remedy="For example collusion=1.")
        self.transport = transport
        self.parties = tuple(map(str, parties))  # a numpy string would not travel
        self.compute_nodes = tuple(map(str, compute_nodes))
        self.collusion = collusion if agreement is None else max(collusion, agreement.collusion)
        self.threshold = max(1, self.collusion, 0 if agreement is None else agreement.threshold)
        described = self.descriptions(alignment)
        named = committee if agreement is None else agreement.computing
        computing = None if named is None else frozenset(named)
        self._computing = driver.ComputeMembers(self.compute_nodes, described, computing)
        super().__init__({name: Schema(dict(reply.schema)) for name, reply in described.items()})
        self.alignment, self.people, self.union, self.data_versions = one_order(described)
        self.aligned_: Alignment | None = None
        self.identity = codec.federation_digest(self.schemas) if agreement is None else agreement.identity
        self.linked = frozenset(() if agreement is None else agreement.direct_addresses())
        self.journal = journal
        self.words = StudyWords(analyst=analyst)
        self.origin: Federation | None = None  # the federation that `asking` was called on
        if agreement is not None:
            check_schemas(agreement, self.schemas)

    @classmethod
    def simulate(
        cls,
        parties: Mapping[str, SimulatedParty[_Policy]],
        *,
        id: str | Mapping[str, str],  # noqa: A002  # the public name is part of the contract
        budget: Budget,
        compute_nodes: Sequence[str] = (),
        committee: Sequence[str] | None = None,
        collusion: int = 1,
        policies: Mapping[str, _Policy] | None = None,
        ledger_dir: str | Path | None = None,
        test_key: bytes | None = None,
        aligned: bool = True,
        analyst: Analyst | str | Path | None = None,
        change_cap: bool = False,
        compute: Compute = "auto",
    ) -> "Federation":
        """Open every party in this process.

        Parameters
        ----------
        parties
            `Party` objects by name; columns are then named ``"party.column"``.
        id
            The column that all tables share, or one name per party. People in every table take part; that is thereby public.
        budget
            Each party's cap, enforced by its own ledger.
        compute_nodes
            Members without data that help to compute on shares. With two parties and none named, the coordinator is the third
            node, and secure methods then assume that it colludes with neither party.
        committee
            The only members that compute on shares, an odd number 2t + 1 of them: for many parties, where everybody would send
            shares to everybody. Any t + 1 of them together see everything. By default all parties of a study compute.
        collusion
            How many parties may pool what they see with the coordinator without weakening the guarantee of secure methods. It
            takes 2c + 1 compute nodes: secure methods refuse to run on fewer.
        policies
            A `Policy` by party name, where the default (answer anything private within the cap) will not do.
        ledger_dir
            Where ledgers are kept; by default a temporary directory that ends with the process (`TemporaryLedgers` says so).
        test_key
            For tests only: all noise becomes a function of this key and protects nobody. The ledgers are marked as test ledgers.
        aligned
            ``False`` declares nothing public: rows have no order, and no study runs, until the parties `align` them.
        analyst
            Who asks: an `Analyst`, or the file of their key. The parties know their public key, as if their papers named it.
        change_cap
            Ledgers in ``ledger_dir`` keep the cap that they have, and another ``budget`` is refused. ``True`` records it as the
            new cap, in a row that names who did it.
        compute
            What this process multiplies shares on: ``"auto"`` (a GPU where there is one and it gains), ``"cpu"`` or ``"gpu"``
            (``colonnade[gpu]``). The results are the same.
        """
        compute_on(compute)
        asks = Analyst.of(analyst)
        nodes = simulated_nodes(parties, compute_nodes, ledger_dir, committee)
        parties = {str(name) if isinstance(name, str) else name: party for name, party in parties.items()}
        guards = type(next(iter(parties.values()))).assemble(
            parties,
            id=id,
            budget=budget,
            policies=policies,
            compute_nodes=nodes,
            committee=committee,
            collusion=collusion,
            ledger_dir=ledger_dir,
            test_key=test_key,
            aligned=aligned,
            analysts={} if asks is None else {asks.name: asks.public},
            change_cap=change_cap,
        )
        return cls(
            Direct(guards),
            parties=tuple(parties),
            compute_nodes=nodes,
            committee=committee,
            collusion=collusion,
            analyst=asks,
        )

    @classmethod
    def connect(
        cls,
        path: str | Path,
        *,
        kit: str | Path | None = None,
        state: str | Path | None = None,
        patience: float | None = None,
        listen: str | None = None,
        analyst: Analyst | str | Path | None = None,
    ) -> "Federation":
        """Be the coordinator of a federation of separate machines, over NVIDIA FLARE's messaging (``colonnade[network]``).

        Parameters
        ----------
        path
            The federation's agreement, ``federation.toml``, signed by every member.
        kit
            The coordinator's own folder; by default ``coordinator`` beside that file's folder, or ``kit`` beside that file.
        state
            Where studies under way are kept; by default ``coordinator-state`` beside that file.
        patience
            Seconds that a party may be out of reach before a call fails; by default 45.
        listen
            The address of this machine to listen on, where it is not the host name in the agreement; ``"0.0.0.0"`` for all.
        analyst
            Who asks: an `Analyst` whom the agreement names, or the file of their key.
        """
        asks = Analyst.of(analyst)
        connection = open_connection(path, kit=kit, state=state, patience=patience, listen=listen)
        agreement = connection.agreement
        try:
            return cls(
                connection.transport,
                parties=agreement.parties,
                compute_nodes=agreement.nodes,
                collusion=agreement.collusion,
                agreement=agreement,
                journal=connection.journal,
                analyst=asks,
            )
        except BaseException:
            connection.transport.close()
            connection.journal.close()
            raise

    # What is public -----------------------------------------------------------------------------------------------------

    @overload
    def budget(self, party: None = None, *, unit: Literal["party"] = "party") -> pd.DataFrame: ...
    @overload
    def budget(self, party: str | None = None, *, unit: Unit = "party") -> pd.Series: ...
    def budget(self, party: str | None = None, *, unit: Unit = "party") -> pd.DataFrame | pd.Series:
        """Return what each ledger has spent (``spent_if_replaced``: towards replaced records, not removed ones) and what remains.

        Parameters
        ----------
        party
            One party's row instead of the table.
        unit
            ``"person"`` adds up what all parties have released about one person: a figure that no single ledger caps.
        """
        return budget_table(self.accounts(), party, unit)

    def descriptions(self, alignment: str = "") -> dict[str, Described]:
        """Ask every party what is public about its columns and about an order of rows; by default the one it was opened with."""
        return self._everyone(GetDescription(alignment=alignment), Described)

    def accounts(self, *, in_words: bool = False) -> dict[str, Accounted]:
        """Return every party's own account, line by line: its cap, what it has released, and what each release cost."""
        return every_account(self.parties, self.transport, self.journal or driver.NoJournal(), in_words=in_words)

    # Rows -------------------------------------------------------------------------------------------------------------------

    def align(
        self,
        mode: Mode = "intersection",
        *,
        epsilon: float | None = None,
        size: Size | None = None,
        capacity: int | Mapping[str, int] | None = None,
        ids: Sequence[object] | None = None,
        kind: str = "text",
        form: str = "NFC",
        strip: bool = True,
        case: str = "keep",
        repeat: int = 1,
        progress: Progress | None = None,
    ) -> Self:
        """Fix the order of rows. It is run once and stored: asking again uses the order that the parties keep, at no cost.

        Parameters
        ----------
        mode
            ``"intersection"``: people in every list. Each party learns exactly which of its own ids those are; policies allow it
            by name. ``"cohort"``: the people of a public list; nobody learns who has them. ``"union"`` (two parties): positions
            in the union; nobody learns who is in common, and secure studies cover those who are (docs/how-to/align.md).
        epsilon
            Tell the coordinator the number of people with discrete Laplace noise, at this price to every ledger. The order then
            has that many places: surplus people are left out at random, surplus places are null records.
        size
            ``"noisy"`` (with ``epsilon``), ``"hidden"`` (the coordinator learns nothing: there are as many places as the
            shortest list could have) or ``"public"`` (the number itself; parties must allow it by name). By default ``"noisy"``
            with ``epsilon``, and otherwise the number where a simulation has declared who takes part public.
        capacity
            To how many ids every list is filled up, or one number for each party: its length does not show. By default, and
            at least, what each party has declared (`Policy`).
        ids
            The public list of ``"cohort"``.
        kind, form, strip, case
            How ids are compared: as ``"text"`` or ``"whole"`` numbers; Unicode form ``"NFC"``, ``"NFKC"`` or ``""``; without
            white space at the ends; with case kept (``"keep"``) or folded (``"fold"``). Rows whose ids become equal take no part.
        repeat
            A higher number is a new attempt. Policies bound how many attempts there are in a period.
        progress
            Called with a line about what is being done.

        Returns
        -------
        self
            On the new order; ``aligned_`` holds the record of the study that fixed it.
        """
        self.aligned_ = align(
            self,
            mode,
            epsilon=epsilon,
            size=size,
            capacity=capacity,
            ids=ids,
            rules=IdRules(kind=kind, form=form, strip=strip, case=case),
            repeat=repeat,
            progress=progress,
        )
        return self

    def split(self, *, test: float = 0.2, repeat: int = 1) -> tuple[Self, Self]:
        """Divide the people in two: one part to fit on, one to evaluate on.

        Who belongs where follows from a hash of a person's place among the ids, keyed with a secret that the parties agree on and
        the coordinator does not learn. It is the same at every party, and asking again gives the same parts. Only the number of
        people in each part is released, and nothing is spent. Studies of either part are debited to the same ledgers.

        Parameters
        ----------
        test
            The share of people in the second part.
        repeat
            A higher number gives another division.

        Returns
        -------
        train, test : Federation
            Both over the same parties and the same transport as this one.
        """
        first, second = split(self, test, repeat)
        return self._on(first), self._on(second)

    def _on(self, order: str) -> Self:
        """Return the same parties on another order of rows that they keep."""
        other = copy.copy(self)
        other.alignment, other.people, other.union, other.data_versions = one_order(self.descriptions(order))
        return other

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
        """Return the plan of a study. The same arguments give the same plan, and the same plan is the same request."""
        return complete_plan(
            self,
            self._computing,
            algorithm.steps(),
            task=task,
            method=method,
            price=price,
            unit=unit,
            parameters=parameters,
            repeat=repeat,
            relation=relation,
        )

    def asking(self, *, title: str | None = None, purpose: str | None = None) -> Self:
        """Return the same federation, saying to the parties what its studies are called and what they are for.

        The parties keep it with the study. It is no part of the request: the same study under another title is the same release.

        Parameters
        ----------
        title, purpose
            One line each; ``None`` keeps what was said before.
        """
        other = copy.copy(self)
        other.words, other.origin = self.words.saying(title, purpose), self.origin or self
        return other

    def quote(self, plan: Plan) -> driver.Quote:
        """Ask every party what a plan would cost it. Spends nothing and touches no data."""
        return driver.propose(plan, self.transport, self.words.about(plan, plan.task))

    def run(
        self, algorithm: Algorithm, plan: Plan, progress: Progress | None = None, *, title: str = ""
    ) -> driver.Outcome:
        """Run a study. ``title`` is what it is called where nobody has said anything else (`asking`)."""
        about = self.words.about(plan, title or plan.task)
        return driver.run_study(algorithm, plan, self.transport, progress or (lambda _: None), self.journal, about)

    def study(
        self,
        algorithm: Algorithm,
        plan: Plan,
        *,
        title: str,
        local: bool = False,
        progress: Progress | None = None,
    ) -> Findings:
        """Run a study, and return its result and record."""
        outcome = self.run(algorithm, plan, progress, title=title)
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
            The price, and the unit that it protects; δ must be positive.
        signed
            Two-level categories to code as one ±1 column instead of two indicators: half the noise, for a binary target.
        noise
            ``"gaussian"`` or ``"skellam"`` (the noise of Secure PCA; docs/proofs/gram.md#skellam).
        scale
            γ, the fixed-point scale; by default 4,096 (64 for Skellam noise).
        row_norms
            Party to the length to which it clips its rows, after scaling each column to [−1, 1]; less noise, some bias.
        repeat
            A higher number is a new draw at a new price.
        """
        return release_moments(
            self,
            columns,
            Price.of(epsilon, delta),
            unit=unit,
            signed=signed,
            noise=noise,
            scale=scale,
            row_norms=row_norms,
            repeat=repeat,
        )

    def delivered(self, party: str, plan: Plan, step: str) -> pd.DataFrame:
        """Return what a study opened to one party alone, where that party is in this process; refused elsewhere.

        It comes from the party's own object and never through the transport: a coordinator across machines cannot ask for it.
        """
        return delivered(self.transport, party, plan, step)

    def delivery_path(self, party: str, plan: Plan, step: str) -> Path | None:
        """Return where a party in this process keeps what was opened to it; ``None`` in memory, or where it is elsewhere."""
        holder = holder_of_deliveries(self.transport, party)
        return None if holder is None else holder.delivery_path(plan, step)

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
        """Return a table for notebooks: what is public about the columns, every string escaped. No party is asked anything."""
        rows = [(name, repr(column)) for name, column in self.describe().items()]
        table = pd.DataFrame(rows, columns=["column", "public description"])
        return f"<p>{html.escape(repr(self))}</p>{table.to_html(index=False, escape=True, border=0)}"

    def _everyone(self, request: Request, kind: "type[_Reply]") -> dict[str, _Reply]:
        replies = driver.ask(dict.fromkeys(self.parties, request), self.transport)
        if any(not isinstance(reply, kind) for reply in replies.values()):
            raise ProtocolError(f"A party answered {type(request).__name__} with something else.")
        return cast("dict[str, _Reply]", replies)
