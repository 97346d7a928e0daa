"""What is put to the parties: a complete plan, the words beside it, and who signs them (`Analyst`).

*The plan* (`complete_plan`): which parties are asked, who computes on shares, and which threshold and collusion that gives.

*The words* (`StudyWords`). A party keeps what was asked, by whom and what for (`colonnade.plan.About`). The words are no part of
the request: the same plan with another title is the same question, and gets the same answer at no further price.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.coordinator.driver import ComputeMembers
from colonnade.errors import BadInput
from colonnade.plan import About, Parameter, Plan, Step, Unit, checked_analyst_name, one_line
from colonnade.privacy.accounting import Price
from colonnade.private_files import require_private, write_new
from colonnade.protocol import codec
from colonnade.secure.keys import Identity, PublicIdentity
from colonnade.secure.shamir import default_threshold
from colonnade.steps.kind import require_known, uses_compute_nodes

if TYPE_CHECKING:
    from colonnade.coordinator.federation import Federation

__all__ = ["Analyst", "StudyWords", "complete_plan"]


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
            title=self.title or one_line(name),
            purpose=self.purpose,
            requester="" if self.analyst is None else self.analyst.name,
        )
        return words if self.analyst is None else words.signed(codec.digest(plan), self.analyst.identity)


def complete_plan(
    federation: "Federation",
    computing: ComputeMembers,
    steps: tuple[Step, ...],
    *,
    task: str,
    method: str,
    price: Price | None,
    unit: Unit,
    parameters: Mapping[str, Parameter],
    repeat: int,
    relation: str,
) -> Plan:
    """Return the plan of a study of some steps; see `Federation.plan`."""
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise BadInput(
            "repeat must be a positive whole number.", remedy="For example repeat=2, for a new draw at a new price."
        )
    if unit not in ("person", "party"):
        raise BadInput("unit must be 'person' or 'party'.", remedy='For example unit="person".')
    asked = tuple(name for name in federation.parties if name in {step.party for step in steps})
    secure = uses_compute_nodes(steps)
    dealing = {step.party for step in steps if step.parameters.get("target")}
    nodes = computing.choose(asked, federation.threshold, dealing) if secure else ()
    plan = Plan(
        task=task,
        method=method,
        parameters=dict(parameters),
        unit=unit,
        price=price,
        relation=relation,
        federation=federation.identity,
        alignment=federation.alignment,
        people=federation.people,
        parties=asked,
        compute_nodes=nodes,
        threshold=default_threshold(len(nodes)) if secure else 0,
        collusion=min(federation.collusion, len(asked) - 1) if secure else 0,
        steps=federation.as_read(steps),
        repeat=repeat,
        data_versions={name: federation.data_versions[name] for name in asked},
    )
    require_known(plan)
    return plan
