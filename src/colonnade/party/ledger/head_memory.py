"""What a party remembers of its own ledger outside the ledger's file: the highest head that it has ever shown.

A ledger that was set back (restored from a back-up, copied from another disk) is sound in itself and has forgotten releases.
Its party's peers may be new and remember nothing. So the party keeps the highest head itself, in a small file beside the
ledger (``bank.head`` beside ``bank.sqlite``), and refuses everything from a ledger that does not continue it.

The order of writing is the argument. *After the ledger's commit*: the memory never names a row that the ledger may not have, so
that no crash can block the party. A ledger ahead of its memory is what a crash in between leaves, and is sound. *Before the
message leaves*: whatever anybody was told rests on rows up to this head.

Whoever restores a whole folder, ledger and memory together, sets back both. The memories of the party's peers are the second
line (`colonnade.conversations.conversation.LedgerHeads`).
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from colonnade.durable_file import replacing
from colonnade.errors import LedgerCorrupt
from colonnade.party.ledger.rows import Head

__all__ = ["HeadMemory"]


class HeadMemory:
    """The highest head that was shown of one ledger, in a file of its own.

    Parameters
    ----------
    ledger
        The ledger's file. The memory is beside it, with the ending ``.head``.
    """

    def __init__(self, ledger: Path) -> None:
        self._path = ledger.with_suffix(".head")

    def check(self, continues: Callable[[Head], bool]) -> None:
        """Refuse a ledger that does not continue what was shown of it."""
        highest = self._read()
        if highest is not None and not continues(highest):
            raise LedgerCorrupt(
                "This party's ledger has gone back, or is another one: rows are missing that were shown before; nothing "
                "was released.",
                remedy="Stop the party, and spend nothing. Restore the newest ledger file; an older back-up has forgotten "
                "releases. Removing the .head file beside it does not bring them back.",
            )

    def keep(self, head: Head) -> None:
        """Remember a head durably. The caller keeps everybody from writing to the ledger meanwhile."""
        if head != self._read():
            with replacing(self._path) as file:
                file.write(msgspec.json.encode(head))

    def _read(self) -> Head | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Head)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError):
            raise LedgerCorrupt(
                "The file beside the ledger with its highest head cannot be read; nothing was released.",
                remedy="Restore the .head file from a back-up that is no newer than the ledger.",
            ) from None
