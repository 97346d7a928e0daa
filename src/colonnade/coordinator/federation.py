"""The coordinator's view of a federation: its parties, how to reach them, and what is public about them."""

import copy
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, overload

import msgspec
import pandas as pd

from colonnade.coordinator.alignment import Alignment, Mode, Size, align, split
from colonnade.coordinator.connect import SimulatedParty, check_schemas, one_order, open_connection, simulated_nodes
from colonnade.coordinator.driver import Analyst, ComputeMembers, Driver, Journal, StudyDescription, descriptions
from colonnade.coordinator.protocols.moment_releases import MomentsRelease, release_moments
from colonnade.coordinator.tightening import USUAL, Tightening, tighten
from colonnade.errors import BadInput, SchemaMismatch
from colonnade.plan import Step
from colonnade.privacy.accounting import NANO, NOTHING, Budget, Loss, Price, Unit, largest_offer, total
from colonnade.privacy.laws import NoiseFamily
from colonnade.protocol import messages
from colonnade.protocol.agreement import FederationAgreement
from colonnade.runtime.event_log import Progress
from colonnade.schema import Column, ColumnName, Schema, plain_names
from colonnade.secure.shamir import Compute, compute_on
from colonnade.steps.alignment import IdRules
from colonnade.transport.direct import Direct, Transport

_Policy = TypeVar("_Policy")


class FederationColumns:
    """The columns of a federation, by ``"party.column"``.

    Parameters
    ----------
    schemas
        What each party's owner has declared, parties in the federation's order.
    """

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self.schemas = dict(schemas)
        self.readings: dict[str, Column] = {}
        self.spreads: dict[str, float] = {}
        """In what part of its bounds a column's values lie, where it was released. Copies share it: all of them know."""

    def column(self, name: str) -> tuple[str, str, Column]:
        """Resolve ``"party.column"`` to its party, its own name and its public description."""
        party, column = ColumnName.of(name)
        self._require_party(party, name)
        if column not in self.schemas[party]:
            raise SchemaMismatch(
                f"Party {party!r} has no column {column!r} in its schema.",
                remedy=f"Its columns are {', '.join(self.schemas[party])}.",
            )
        return party, column, self.schemas[party][column]

    def _require_party(self, party: str, name: str) -> None:
        if party not in self.schemas:
            raise BadInput(
                f"{name!r} is not known here: {party!r} is no party of this federation.",
                remedy=f"Columns are named 'party.column'; the parties are {', '.join(self.schemas)}.",
            )

    def names(self) -> list[str]:
        """Return every column of the federation: parties as given, then schema order."""
        return [str(ColumnName(party, column)) for party in self.schemas for column in self.schemas[party]]

    def describe(self, columns: Sequence[str] | None = None) -> dict[str, Column]:
        """Return the public descriptions of some columns (all by default), in the federation's order."""
        found = {name: self.column(name)[2] for name in (self.names() if columns is None else plain_names(columns))}
        return {name: found[name] for name in self.names() if name in found}

    def read_as(self, readings: Mapping[str, Column]) -> Self:
        """Return the same columns, with some read as coarser descriptions; see `Federation.read_as`."""
        own: dict[str, dict[str, Column]] = {}
        for name, reading in readings.items():
            together = bool(reading.parts)  # two columns, known by a name of their own from now on
            party, column = ColumnName.of(name) if together else self.column(name)[:2]
            if party not in self.schemas or self.schemas[party].get(column) != reading:
                own.setdefault(party, {})[column] = reading
        for party, columns in own.items():
            self._require_party(party, str(ColumnName(party, next(iter(columns)))))
        other = copy.copy(self)
        other.schemas = {party: schema.read_as(own.get(party, {})) for party, schema in self.schemas.items()}
        other.readings = self.readings | {
            str(ColumnName(party, column)): reading for party, read in own.items() for column, reading in read.items()
        }
        return other

    def allows(self, name: str, reading: Column) -> bool:
        """Return whether a column here may be read as another description; or two columns together, under their common name."""
        party, column = ColumnName.of(name)
        return party in self.schemas and self.schemas[party].allows(column, reading)

    def as_read(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Return steps that say how their columns are read, where that is not as declared."""
        if not self.readings:
            return tuple(steps)
        return tuple(msgspec.structs.replace(step, readings=self._readings_of(step) or msgspec.UNSET) for step in steps)

    def _readings_of(self, step: Step) -> dict[str, Column]:
        named = {column: str(ColumnName(step.party, column)) for column in step.columns}
        return {column: self.readings[name] for column, name in named.items() if name in self.readings}


class Federation:
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
        journal: Journal | None = None,
        analyst: Analyst | None = None,
    ) -> None:
        if type(collusion) is not int or collusion < 0:
            raise BadInput("collusion must be a whole number, zero or more.", remedy="For example collusion=1.")
        self.parties = tuple(map(str, parties))  # a numpy string would not travel
        nodes = tuple(map(str, compute_nodes))
        collusion = collusion if agreement is None else max(collusion, agreement.collusion)
        described = descriptions(self.parties, transport, alignment)
        computing = committee if agreement is None else agreement.computing
        columns = FederationColumns({name: Schema(dict(reply.schema)) for name, reply in described.items()})
        order, people, union, data_versions = one_order(described)
        self._driver = Driver(
            transport=transport,
            parties=self.parties,
            columns=columns,
            computing=ComputeMembers(nodes, described, None if computing is None else frozenset(computing)),
            collusion=collusion,
            threshold=max(1, collusion, 0 if agreement is None else agreement.threshold),
            identity=messages.federation_digest(columns.schemas) if agreement is None else agreement.identity,
            linked=frozenset(() if agreement is None else agreement.direct_addresses()),
            journal=journal,
            words=StudyDescription(analyst=analyst),
            alignment=order,
            people=people,
            union=union,
            data_versions=data_versions,
        )
        self.aligned_: Alignment | None = None
        self.tightened_: Tightening | None = None
        self._origin: Federation | None = None  # the federation that `asking` was called on
        if agreement is not None:
            check_schemas(agreement, columns.schemas)

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
        return budget_table(self._driver.accounts(), party, unit)

    @property
    def people(self) -> int:
        """How many people take part; public."""
        return self._driver.people

    def describe(self, columns: Sequence[str] | None = None) -> dict[str, Column]:
        """Return the public descriptions of some columns (all by default), in the federation's order."""
        return self._driver.columns.describe(columns)

    def read_as(self, readings: Mapping[str, Column]) -> Self:
        """Return the same federation, with some columns read as coarser descriptions: in bins, or between narrower bounds.

        Studies of it are the same code, and are debited to the same ledgers. The plan says how a column is read, and every party
        checks it against what its owner has declared.

        Parameters
        ----------
        readings
            ``"party.column"`` to the description; others are read as before.

        Examples
        --------
        >>> import colonnade as cn
        >>> from colonnade.schema import Bins
        >>> federation = cn.datasets.three_organisations(people=100).federation(budget=cn.Budget(epsilon=1.0))
        >>> age = federation.describe(["bank.age"])["bank.age"]
        >>> federation.read_as({"bank.age": Bins.equal(age, 3)}).describe(["bank.age"])["bank.age"].levels
        ('[18, 44)', '[44, 70)', '[70, 95]')
        """
        return self._with(columns=self._driver.columns.read_as(readings))

    def tightened(
        self,
        columns: Sequence[str] | None = None,
        *,
        quantiles: tuple[float, float] = USUAL,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: Unit = "person",
        width: float = 0.01,
        repeat: int = 1,
    ) -> Self:
        """Return the same federation with narrower bounds, found privately. From then on values outside of them are clipped.

        Results of its studies are about the clipped table. ``tightened_`` has the bounds and the receipt. Asking again costs
        nothing, also for other quantiles or another width: it is the same release.

        Parameters
        ----------
        columns
            Numbers and dates; all of them by default.
        quantiles
            The shares of people below the lower bound and below the upper one.
        epsilon, delta, unit
            The price of the bounds, and the unit that it protects. There is no default for ε.
        width
            How far apart bounds are at least, in parts of the declared distance.
        repeat
            A higher number is a new draw at a new price.

        Examples
        --------
        >>> import colonnade as cn
        >>> federation = cn.datasets.three_organisations(people=5_000).federation(budget=cn.Budget(epsilon=4.0))
        >>> narrow = federation.tightened(["bank.income"], epsilon=1.0)
        >>> narrow.describe(["bank.income"])["bank.income"].high < federation.describe(["bank.income"])["bank.income"].high
        True
        """
        found, record = tighten(
            self._driver,
            columns,
            Price.of(epsilon, delta),
            quantiles=quantiles,
            width=width,
            unit=unit,
            repeat=repeat,
        )
        other = self.read_as(found)
        other.tightened_ = record
        return other

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
        self._driver, self.aligned_ = align(
            self._driver,
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
        first, second = split(self._driver, test, repeat)
        return self._on(first), self._on(second)

    def _on(self, name: str) -> Self:
        """Return the same parties on another order of rows that they keep."""
        order, people, union, data_versions = one_order(self._driver.descriptions(name))
        return self._with(alignment=order, people=people, union=union, data_versions=data_versions)

    def _with(self, **changes: Any) -> Self:
        other = copy.copy(self)
        other._driver = replace(self._driver, **changes)
        return other

    # Studies ------------------------------------------------------------------------------------------------------------

    def asking(self, *, title: str | None = None, purpose: str | None = None) -> Self:
        """Return the same federation, saying to the parties what its studies are called and what they are for.

        The parties keep it with the study. It is no part of the request: the same study under another title is the same release.

        Parameters
        ----------
        title, purpose
            One line each; ``None`` keeps what was said before.
        """
        other = self._with(words=self._driver.words.saying(title, purpose))
        other._origin = self._origin or self
        return other

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
            self._driver,
            columns,
            Price.of(epsilon, delta),
            unit=unit,
            signed=signed,
            noise=noise,
            scale=scale,
            row_norms=row_norms,
            repeat=repeat,
        )

    def close(self) -> None:
        """Close the transport, and with it ledgers opened by `simulate`."""
        for part in (self._driver.transport, self._driver.journal):
            close: Callable[[], None] | None = getattr(part, "close", None)
            if close is not None:
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Federation({', '.join(self.parties)}: {self.people:,} people, {len(self.describe())} columns)"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: what is public about the columns, every string escaped. No party is asked anything."""
        rows = [(name, repr(column)) for name, column in self.describe().items()]
        table = pd.DataFrame(rows, columns=["column", "public description"])
        return f"<p>{html.escape(repr(self))}</p>{table.to_html(index=False, escape=True, border=0)}"


def account_row(reply: messages.Accounted) -> dict[str, object]:
    """Return one party's line of `Federation.budget`."""
    spent = Loss.from_bytes(reply.spent)
    return {
        "party": reply.party,
        "spent": spent.epsilon(reply.cap_delta),
        "remaining": largest_offer(spent, reply.cap_nano, reply.cap_delta) / NANO,
        "epsilon": reply.cap_nano / NANO,
        "delta": reply.cap_delta,
        "releases": sum(entry.loss is not None for entry in reply.entries),
        "nonprivate": sum(entry.loss is None for entry in reply.entries),
        "spent_if_replaced": spent.epsilon_if_replaced(reply.cap_delta),
    }


def budget_table(accounts: Mapping[str, messages.Accounted], party: str | None, unit: Unit) -> pd.DataFrame | pd.Series:
    """Return the parties' accounts as a table, one party's row of it, or one person's total; see `Federation.budget`."""
    if unit == "person":
        return person_row(accounts.values())
    rows = pd.DataFrame([account_row(reply) for reply in accounts.values()]).set_index("party")
    if party is None:
        return rows
    if party not in rows.index:
        raise BadInput(f"There is no party {party!r}.", remedy=f"The parties are {', '.join(accounts)}.")
    return rows.loc[party]


def person_row(accounts: Iterable[messages.Accounted]) -> pd.Series:
    """Return what all parties together have released about one person: a figure that no single ledger caps."""
    replies = list(accounts)
    delta = max((reply.cap_delta for reply in replies), default=0.0)
    return pd.Series({"spent": _person_loss(replies).epsilon(delta), "delta": delta}, name="person")


def _person_loss(accounts: Iterable[messages.Accounted]) -> Loss:
    """Compose all parties' releases. A release that several parties paid for together counts once, at its largest loss."""
    alone: list[Loss] = []
    joint: dict[str, Loss] = {}
    for reply in accounts:
        for entry in reply.entries:
            loss = entry.cost()
            if loss is None:
                continue
            if entry.joint is None:
                alone.append(loss)
            else:
                joint[entry.joint] = max(
                    joint.get(entry.joint, NOTHING), loss, key=lambda one: (one.renyi, one.gaussian or 0)
                )
    return total([*alone, *joint.values()])
