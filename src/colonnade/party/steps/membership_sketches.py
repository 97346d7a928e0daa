"""Sketches of who is in which local cluster, computed from a table."""

from typing import Any

from numpy.typing import NDArray

from colonnade.party.steps.counts import category_codes, prepare_category
from colonnade.party.table.private_table import PrivateTable
from colonnade.steps.membership_sketches import MembershipSketches

__all__ = ["PrivateMembershipSketches"]


class PrivateMembershipSketches(MembershipSketches):
    """The memberships that are sketched."""

    def prepare(self, table: PrivateTable) -> None:
        """Require the centres and the key, before anything is paid."""
        prepare_category(self.category, table)
        self.key()

    def compute(self, table: PrivateTable) -> NDArray[Any]:
        """Return everybody's local cluster."""
        return category_codes(self.category, table)
