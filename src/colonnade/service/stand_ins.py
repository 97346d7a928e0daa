"""Previews of a study file: priced at parties without tables (`colonnade.party.stand_in`). No row is read and nothing is drawn.

*Who takes part.* What a run has fixed, the names and sizes of row orders, is kept beside the ledgers (``orders.json``), and
previews use it. Before the first run there are two cases. Without ``[align]`` the file declares who takes part public, so the
ids are read, and no other column. With ``[align]`` nothing is known before the parties have matched their lists: figures are
then for the declared capacity, or else for `ASSUMED_PEOPLE`, and the preview says so.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import colonnade as cn
from colonnade.coding.columns import id_column
from colonnade.coordinator.alignment import alignment_plan
from colonnade.party.stand_in import StandIn
from colonnade.party.table.stored_table import common_list, list_identity, party_ids
from colonnade.privacy.accounting import NOTHING, Loss
from colonnade.service.file_preview import FilePreview, preview_studies
from colonnade.service.study_file import Order, StudyFile
from colonnade.service.tightening import Bounds
from colonnade.steps.alignment import IdRules

__all__ = ["ASSUMED_PEOPLE", "PreviewedPeople", "preview_of"]

ASSUMED_PEOPLE = 10_000
"""People in a preview of rows that are still to be matched, where no capacity is declared."""

_RULES = ("kind", "form", "strip", "case")


@dataclass(frozen=True)
class PreviewedPeople:
    """Whom a preview is about: everybody, those that studies are fitted on, and whether that is known or assumed."""

    everybody: Order
    fitted: Order
    known: bool


def preview_of(file: StudyFile) -> tuple[FilePreview, PreviewedPeople]:
    """Return what a file's studies would cost, and whom the figures are about."""
    file.refuse_another_cap()
    with file.ledgers(spend=False) as folder:
        people, matching = _people(file, folder)
        with _stand_ins(file, folder, people.fitted) as federation:
            bounds = Bounds(file.tighten, federation)
            asked = file.studies if bounds.released else bounds.with_bounds(file.studies)
            found = preview_studies(asked, bounds.if_released())
    charges = {party: found.charges[party] + matching.get(party, NOTHING) for party in found.charges}
    return replace(found, charges=charges), people


def _people(file: StudyFile, folder: Path) -> tuple[PreviewedPeople, Mapping[str, Loss]]:
    """Return who takes part, and what matching their lists would cost."""
    kept, known = file.kept_orders(), True
    matching: Mapping[str, Loss] = {}
    if "all" in kept:
        everybody = kept["all"]
    elif file.align is None:
        sources = {name: member.party() for name, member in file.members.items()}
        common = common_list(
            {
                name: party_ids(party.source, id_column(file.id, name), party=name, memory=party.memory)
                for name, party in sources.items()
            }
        )
        everybody = Order(list_identity(common, "intersection"), len(common))
    else:
        everybody, matching = _to_be_matched(file, folder, file.align)
        known = file.align.get("mode") == "cohort"
    if file.split is None:
        return PreviewedPeople(everybody, everybody, known), matching
    share = round(everybody.people * (1 - file.split["test"]))
    fitted = kept.get("train") or Order("to be divided", max(1, share), everybody.union)
    return PreviewedPeople(everybody, fitted, known), matching


def _to_be_matched(file: StudyFile, folder: Path, align: Mapping[str, Any]) -> tuple[Order, Mapping[str, Loss]]:
    """Return an order of assumed size, and what fixing it would cost each party."""
    asked: dict[str, Any] = {
        "mode": "intersection",
        "epsilon": None,
        "size": None,
        "capacity": None,
        "repeat": 1,
        **align,
    }
    rules = IdRules(**{name: asked.pop(name) for name in _RULES if name in asked})
    listed = asked.pop("ids", None)
    with _stand_ins(file, folder, Order("unaligned", 0)) as federation:
        described = federation.descriptions()
        _, plan, _ = alignment_plan(federation, described, cohort=listed, rules=rules, announce=lambda _: None, **asked)
        quote = federation.quote(plan)
        charges = {party: quote.charge(party) for party in plan.parties}
    lengths = [reply.capacity for reply in described.values()]
    people = {"cohort": len(set(map(str, listed or ()))), "union": sum(lengths)}.get(asked["mode"], min(lengths))
    return Order("to be matched", people, asked["mode"] == "union"), charges


@contextmanager
def _stand_ins(file: StudyFile, folder: Path, order: Order) -> "Iterator[cn.Federation]":
    policies = {name: member.policy for name, member in file.members.items() if member.policy is not None}
    least = max([ASSUMED_PEOPLE, *(policy.min_people or 0 for policy in policies.values())])
    given = (file.align or {}).get("capacity")
    capacities = given if isinstance(given, Mapping) else dict.fromkeys(file.members, given)
    with cn.Federation.simulate(
        {
            name: StandIn(
                member.schema, member.version, order.identity, order.people, order.union, capacities.get(name) or least
            )
            for name, member in file.members.items()
        },
        id=file.id,
        budget=file.budget,
        compute_nodes=file.compute_nodes,
        committee=file.committee,
        collusion=file.collusion,
        policies=policies,
        ledger_dir=folder,
        analyst=file.analyst,
    ) as federation:
        yield federation
