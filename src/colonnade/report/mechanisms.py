"""Every law of a plan with its sensitivity, its scale and its proof, rebuilt from public facts exactly as a party does.

A step and its law are functions of plan, schema and price alone, so a reader of the report arrives at the same figures as the
party that drew the noise. The proof is the law's own documentation, copied into the report.
"""

import inspect
import re
from collections.abc import Mapping

from colonnade.coding.names import ColumnName
from colonnade.plan import Plan
from colonnade.schema import Column, Schema
from colonnade.steps.kind import NoiseWords
from colonnade.steps.registry import whole_steps

__all__ = ["noises", "proof_of"]


def noises(plan: Plan, schema: Mapping[str, Column]) -> list[NoiseWords]:
    """Return one entry per joint step, and one per local step of a party, in the plan's order.

    Parameters
    ----------
    plan
        The study.
    schema
        ``"party.column"`` to its public description, for the columns that enter.
    """
    schemas = {party: Schema(_own(schema, party)) for party in plan.parties}
    return [words for kind, steps in whole_steps(plan) for words in kind.noise_words(plan, steps, schemas)]


def _own(schema: Mapping[str, Column], party: str) -> dict[str, Column]:
    named = {ColumnName.of(name): column for name, column in schema.items()}
    return {name.column: column for name, column in named.items() if name.party == party}


def proof_of(kind: type) -> str:
    """Return the documentation of a mechanism: what it guarantees, against whom, the proof, and its tests."""
    own = _without_usage(inspect.getdoc(kind) or "")
    module = inspect.getmodule(kind)
    around = "" if "\nPrivacy\n" in own or module is None else (inspect.getdoc(module) or "") + "\n\n"
    return f"{around}{own}".strip() or f"See {kind.__module__}.{kind.__qualname__}."


def _without_usage(documentation: str) -> str:
    """Leave out the sections of a numpy docstring that say how to call a class."""
    parts = re.split(r"\n(?=[A-Z][A-Za-z ]+\n-{3,}\n)", documentation)
    return "\n".join(part for part in parts if not part.startswith(("Parameters\n", "Examples\n", "Attributes\n")))
