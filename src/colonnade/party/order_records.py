"""What a ledger records about row orders: a part of the gate (`colonnade.party.gate`), for steps that make one."""

from typing import TYPE_CHECKING

from colonnade.party.handles import Attempt
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.party.refusals import among_rows
from colonnade.party.table.row_order import RowOrder
from colonnade.protocol import codec
from colonnade.protocol.messages import Described, Settled

if TYPE_CHECKING:
    from colonnade.party.gate import AdmittedStep

__all__ = ["OrderRecords"]


class OrderRecords:
    """What the ledger records about row orders: attempts to align, what they tell, and which orders are kept.

    Parameters
    ----------
    admitted
        The step that makes an order.
    ledger
        The party's ledger.
    """

    def __init__(self, admitted: "AdmittedStep", ledger: SqliteLedger) -> None:
        self._admitted = admitted
        self._ledger = ledger

    def attempts(self) -> list[Attempt]:
        """Return the attempts to align, in any mode, within the policy's period by the ledger's clock."""
        return Attempt.within(self._admitted.policy.alignment_period, self._ledger.now(), self._ledger.entries())

    def record_attempt(self) -> bytes:
        """Record an attempt, durably, before anything of the list is read; return its name."""
        self._admitted.require_begun()
        name = Attempt.named(self._admitted.request, self._ledger.head().sequence)
        self._ledger.record_list(name, self._admitted.body, **self._admitted.row())
        return name

    def disclose(self, request: bytes, what: str) -> None:
        """Record by name, durably and once, what an attempt is about to tell exactly (`Attempt.telling`)."""
        row = self._admitted.row()
        row["label"] += f" {what}"
        if not self._ledger.knows(request):
            self._admitted.require_begun()
            self._ledger.record_nonprivate(request, self._admitted.body, **row)

    def tell(self, request: bytes, run: bytes) -> None:
        """Record durably that one run of an attempt comes to the letters that tell; a second run is refused."""
        self._ledger.seal(request, run)

    def record_order(self) -> None:
        """Record durably that an order is about to be kept for this step. After that, no second one is."""
        self._ledger.record_alignment(self._admitted.request, self._admitted.body, **self._admitted.row())

    def settle(self) -> None:
        """Keep, as the answer to this step, that its orders are settled."""
        self._ledger.seal(self._admitted.request, codec.encode(Settled(step=self._admitted.step.name)))

    def keep(self, order: RowOrder) -> Described:
        """Keep an order durably, and then describe it."""
        with among_rows():
            gate = self._admitted.row_orders.add(order)
        described = gate.terms.described(gate.policy)
        if self._admitted.step.price is not None:
            self._ledger.commit(self._admitted.request, codec.encode(described))
        else:
            self.record_order()
            self._ledger.seal(self._admitted.request, codec.encode(described))
        return described
