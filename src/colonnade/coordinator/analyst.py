"""`Analyst`: the person who asks, with a key of their own; and the words that go beside a plan.

A party keeps what was asked, by whom and what for (`colonnade.protocol.requests`). These words are no part of the request: the
same plan with another title is the same question, and gets the same answer at no further price.
"""

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from colonnade.errors import BadInput
from colonnade.plan import About, Plan
from colonnade.private_files import require_private, write_new
from colonnade.protocol import codec
from colonnade.protocol.requests import checked_analyst_name, sign_request
from colonnade.secure.keys import Identity, PublicIdentity

__all__ = ["Analyst", "StudyWords"]


class Analyst:
    """Somebody who asks for studies, known to the parties by a public key.

    Parameters
    ----------
    name
        What the parties call them, such as ``analyst@telco``.
    identity
        Their key.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> analyst = Analyst.create(folder.name + "/analyst.key", name="analyst@telco")
    >>> Analyst.read(folder.name + "/analyst.key").public == analyst.public
    True
    >>> folder.cleanup()
    """

    def __init__(self, name: str, identity: Identity) -> None:
        self.name = checked_analyst_name(name)
        self.identity = identity

    @classmethod
    def create(cls, path: str | Path, *, name: str) -> "Analyst":
        """Make a key, in a new file for this user alone.

        Parameters
        ----------
        path
            The file. It holds the secret key: keep it, and a copy of it, safe.
        name
            The analyst's name.
        """
        seed, checked = os.urandom(32), checked_analyst_name(name)
        write_new(Path(path), f"name = {json.dumps(checked)}\nkey = {json.dumps(seed.hex())}\n".encode())
        return cls(checked, Identity.from_seed(seed))

    @classmethod
    def read(cls, path: str | Path) -> "Analyst":
        """Read a key from its file; refuse one that other users of the machine can read."""
        path = Path(path)
        require_private(path)
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            name, seed = document["name"], bytes.fromhex(document["key"])
        except (OSError, ValueError, KeyError, TypeError):
            raise BadInput(
                f"{path.name} is not an analyst's key.", remedy="Make one: colonnade analyst init FILE --name NAME"
            ) from None
        return cls(name, Identity.from_seed(seed))

    @classmethod
    def of(cls, given: "Analyst | str | Path | None") -> "Analyst | None":
        """Return an analyst from what `Federation` takes: the object, or the file of its key."""
        return given if given is None or isinstance(given, Analyst) else cls.read(given)

    @property
    def public(self) -> PublicIdentity:
        """The public key, for the federation's papers."""
        return PublicIdentity(self.identity.public)

    def __repr__(self) -> str:
        return f"Analyst({self.name!r})"


@dataclass(frozen=True)
class StudyWords:
    """What a federation says about the studies that it asks for.

    Parameters
    ----------
    title, purpose
        One line each. Without a title, the study's own name.
    analyst
        Who signs; ``None`` where the words are the coordinator's own.
    """

    title: str = ""
    purpose: str = ""
    analyst: Analyst | None = None

    def saying(self, title: str | None, purpose: str | None) -> "StudyWords":
        """Return these words with another title or purpose; ``None`` keeps what there is."""
        said = (self.title if title is None else title, self.purpose if purpose is None else purpose)
        new = StudyWords(*said, self.analyst)
        if not isinstance(new.title, str) or not isinstance(new.purpose, str):
            raise BadInput("A study's title and purpose are texts.", remedy='For example title="Churn by plan".')
        About(title=new.title, purpose=new.purpose)  # refuses what is too long, before anything is asked
        return new

    def about(self, plan: Plan, name: str) -> About:
        """Return what the parties are told about one study, signed where there is an analyst."""
        words = About(
            title=self.title or name, purpose=self.purpose, requester="" if self.analyst is None else self.analyst.name
        )
        return words if self.analyst is None else sign_request(words, codec.digest(plan), self.analyst.identity)
