"""What all studies of a file would cost together, party by party, before anything is spent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

import colonnade as cn
from colonnade.errors import BudgetExceeded
from colonnade.estimators.answers import Preview, budget_after
from colonnade.privacy.accounting import NOTHING, Loss
from colonnade.protocol.messages import Accounted
from colonnade.service.study_file import StudyEntry
from colonnade.service.toml_parts import within

__all__ = ["FilePreview", "preview_studies"]


@dataclass(frozen=True)
class FilePreview:
    """The previews of a file's studies, and what they would cost together.

    Parameters
    ----------
    previews
        Each study, and its preview.
    accounts
        The parties' accounts now.
    charges
        What all studies together would still be debited, by party. What is paid for before costs nothing again, and a study that
        the file has twice is paid once.
    """

    previews: tuple[tuple[StudyEntry, Preview], ...]
    accounts: Mapping[str, Accounted]
    charges: Mapping[str, Loss]

    def table(self) -> pd.DataFrame:
        """Return one row per party: what it has spent, what this file would add, what would then remain, and its cap."""
        now, then = budget_after(self.accounts, {}), budget_after(self.accounts, self.charges)
        added = {party: self.charges[party].epsilon(reply.cap_delta) for party, reply in self.accounts.items()}
        return pd.DataFrame(
            {
                "spent": now["spent"],
                "this file": pd.Series(added),
                "would remain": then["remaining"].where(pd.Series({party: self._fits(party) for party in then.index})),
                "cap": now["epsilon"],
            }
        ).rename_axis("party")

    def require_room(self) -> None:
        """Refuse a file whose studies do not fit a party's budget together."""
        short = [party for party in self.accounts if not self._fits(party)]
        if not short:
            return
        row = self.table().loc[short[0]]
        asking = [entry.title for entry, preview in self.previews if preview.charges.get(short[0], NOTHING) != NOTHING]
        raise BudgetExceeded(
            f"The {len(asking)} studies of this file that ask {short[0]!r} do not fit its budget together: they would add "
            f"ε={row['this file']:.4g}, and it has spent ε={row['spent']:.4g} of ε={row['cap']:.4g}.",
            remedy=f"Lower their epsilon, or leave one of them out ({', '.join(asking)}). `colonnade preview` shows the charges.",
        )

    def _fits(self, party: str) -> bool:
        reply = self.accounts[party]
        return (Loss.from_bytes(reply.spent) + self.charges[party]).fits(reply.cap_nano, reply.cap_delta)


def preview_studies(studies: Iterable[StudyEntry], federation: "cn.Federation") -> FilePreview:
    """Preview all studies of a file. A mistake in one of them is refused here; the error says which study it is in."""
    previews = tuple((entry, _preview(entry, federation)) for entry in studies)
    accounts = federation.accounts()
    unpaid: dict[str, dict[bytes, Loss]] = {party: {} for party in accounts}
    for _, preview in previews:
        for party, steps in preview.unpaid.items():
            unpaid[party] |= steps
    charges = {party: sum(steps.values(), start=NOTHING) for party, steps in unpaid.items()}
    return FilePreview(previews, accounts, charges)


def _preview(entry: StudyEntry, federation: "cn.Federation") -> Preview:
    return within(entry.title, lambda: entry.estimator.preview(federation, repeat=entry.repeat))
