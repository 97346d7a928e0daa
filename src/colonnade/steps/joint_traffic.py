"""The traffic of a joint opening, from its terms alone: which rounds it has, and how many bytes each member sends and gets."""

from typing import TYPE_CHECKING

from colonnade.secure.shamir import check_repetitions
from colonnade.steps.kind import HELLO, LETTER, LOSS, SEED, SMALL, Forecast

if TYPE_CHECKING:
    from colonnade.steps.joint import Joint, Tile

__all__ = ["forecast_opening"]

WORD = 8
GIVEN = 2
"""Bytes per person in a letter of a giver (`colonnade.conversations.scores`)."""


def forecast_opening(joint: "Joint", forecast: Forecast, *, kept: bool) -> None:
    """Add the rounds of a joint opening: recall, greet, one turn per chunk and three more, conclude."""
    if len(joint.tiles) > 1:
        _forecast_tiles(joint, forecast, kept=kept)
        return
    answer = joint.opened_bytes
    if kept:
        forecast.round(dict.fromkeys(joint.members, SMALL), dict.fromkeys(joint.owners, answer + LOSS + SMALL))
        return
    arriving = _forecast_sharing(joint, forecast)
    forecast.round(arriving, _opened(joint, joint.tiles[0]))
    concluded = dict.fromkeys(joint.owners, answer + SMALL)
    forecast.round(concluded, dict.fromkeys(joint.owners, answer + LOSS + SMALL))


def _forecast_sharing(joint: "Joint", forecast: Forecast) -> dict[str, int]:
    """Add the rounds up to the degree checks; return what the members are sent next."""
    members = joint.members
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, SMALL // 2))
    forecast.round(dict.fromkeys(members, SMALL), dict.fromkeys(members, HELLO + SMALL))
    arriving = dict.fromkeys(members, len(members) * HELLO)
    if joint.preceding:
        sent, received = _given_letters(joint, forecast)
        forecast.round(arriving, {member: size + SMALL for member, size in sent.items()})
        arriving = received
    for turn in range(1, len(joint.chunks) + 3):
        sent, received = _letters(joint, forecast, turn)
        forecast.round(arriving, {member: size + SMALL for member, size in sent.items()})
        arriving = received
    return arriving


def _opened(joint: "Joint", tile: "Tile") -> dict[str, int]:
    """Return the bytes that each member opens with a tile."""
    own = {member: len(range(*tile.own.indices(entries))) for member, entries in joint.own_entries.items()}
    return {
        member: SMALL + WORD * (tile.entries if member in joint.nodes else 0) + WORD * own.get(member, 0)
        for member in joint.members
    }


def _forecast_tiles(joint: "Joint", forecast: Forecast, *, kept: bool) -> None:
    """Add the rounds of an opening in tiles: three for each, or one if it was kept."""
    members = joint.members
    if not kept:
        forecast.round(_forecast_sharing(joint, forecast), dict.fromkeys(members, SMALL // 2))
    for tile in joint.tiles:
        if not kept:
            sent, received = _noise_letters(joint, forecast, tile)
            forecast.round(dict.fromkeys(members, SMALL), {name: size + SMALL for name, size in sent.items()})
            forecast.round(received, dict.fromkeys(members, SMALL // 2))
        forecast.round(dict.fromkeys(members, SMALL), _opened(joint, tile))
    forecast.round(dict.fromkeys(joint.owners, SMALL), dict.fromkeys(joint.owners, LOSS + SMALL))


def _noise_letters(joint: "Joint", forecast: Forecast, tile: "Tile") -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of noise by sender and by receiver."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for sender in joint.owners:
        for point, node in enumerate(joint.nodes, start=1):
            if node != sender:
                seeded = point <= 2 * joint.threshold
                size = LETTER + (SEED if seeded else joint.arithmetic.packed_size(tile.entries))
                forecast.letter(sender, node, size)
                sent[sender] += size
                received[node] += size
    return sent, received


def _given_letters(joint: "Joint", forecast: Forecast) -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of what givers write to the owners, by sender and by receiver."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for giver in joint.givers:
        for owner in joint.owners:
            size = LETTER + GIVEN * joint.people
            forecast.letter(giver, owner, size)
            sent[giver] += size
            received[owner] += size
    return sent, received


def _letters(joint: "Joint", forecast: Forecast, turn: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return bytes of letters by sender and by receiver in one turn."""
    sent, received = dict.fromkeys(joint.members, 0), dict.fromkeys(joint.members, 0)
    for sender in joint.members:
        for point, node in enumerate(joint.nodes, start=1):
            if node != sender and (size := _letter(joint, sender, point, turn)):
                forecast.letter(sender, node, size)
                sent[sender] += size
                received[node] += size
    if turn == 1:
        for member in joint.members:
            if member not in joint.hub:
                received[member] += len(joint.nodes) * LETTER
        for node in joint.nodes:
            sent[node] += sum(member not in joint.hub for member in joint.members) * LETTER
    return sent, received


def _letter(joint: "Joint", sender: str, point: int, turn: int) -> int:
    deals, computes = sender in joint.owners and turn <= len(joint.chunks), sender in joint.nodes
    if not (deals or computes):
        return 0
    packed, t = joint.arithmetic.packed_size, joint.threshold
    repetitions, size = check_repetitions(joint.arithmetic), LETTER
    if deals and turn == 1:
        size += 2 * SEED
        if len(joint.tiles) == 1:
            size += SEED if point <= 2 * t else packed(joint.entries)
    if deals and point not in joint.seeded(sender):
        start, stop = joint.chunks[turn - 1]
        size += packed((stop - start) * joint.widths[joint.owners.index(sender)])
    if computes:
        size += 2 * SEED if turn == 2 else SEED
    if computes and joint.redealt and 2 <= turn <= len(joint.chunks) + 1:
        start, stop = joint.chunks[turn - 2]
        size += SEED if point <= t else packed((stop - start) * joint.redealt)
    if computes and turn == len(joint.chunks) + 2:
        size += len(joint.owners) * (packed(repetitions) + 12)
    return size
