"""The group key against parties that steer, copy, equivocate or change their mind, and a coordinator that listens."""

from collections.abc import Mapping

import pytest

from colonnade.errors import ProtocolError
from colonnade.secure.keys import GroupSecret, Session
from tests.secure import runs

STEP = 3
Letters = dict[str, dict[str, bytes]]


def members(count: int = 3, purpose: str = "sketches", **changes: object) -> dict[str, GroupSecret]:
    return {
        name: GroupSecret(session, purpose, STEP, runs.seed("group", name))
        for name, session in runs.sessions(count, **changes).items()
    }


def delivered(sent: Mapping[str, Mapping[str, bytes]]) -> Letters:
    """Turn letters by sender and receiver into letters by receiver and sender: the coordinator's relay."""
    return {
        receiver: {sender: letters[receiver] for sender, letters in sent.items() if sender != receiver}
        for receiver in sent
    }


def committed(group: dict[str, GroupSecret]) -> Letters:
    return delivered({name: member.commit() for name, member in group.items()})


def revealed(group: dict[str, GroupSecret], commitments: Letters) -> Letters:
    return delivered({name: member.reveal(commitments[name]) for name, member in group.items()})


def settled(group: dict[str, GroupSecret]) -> dict[str, bytes]:
    reveals = revealed(group, committed(group))
    return {name: member.settle(reveals[name]).expose() for name, member in group.items()}


@pytest.mark.parametrize("count", range(2, 9))
def test_all_parties_arrive_at_the_same_key(count: int) -> None:
    keys = settled(members(count))
    assert len(keys) == count
    assert len(set(keys.values())) == 1
    assert len(keys["ana"]) == 32


@pytest.mark.parametrize("name", ["ana", "bo", "cy"])
def test_every_contribution_counts(name: str) -> None:
    sessions = runs.sessions()
    group = {
        party: GroupSecret(session, "sketches", STEP, runs.seed("group", party, party == name))
        for party, session in sessions.items()
    }
    assert settled(group)["ana"] != settled(members())["ana"]


def test_a_restarted_party_sends_the_same_letters_and_settles_on_the_same_key() -> None:
    group = members()
    commitments = committed(group)
    reveals = revealed(group, commitments)
    again = GroupSecret(runs.sessions()["ana"], "sketches", STEP, runs.seed("group", "ana"))
    assert again.commit() == {peer: commitments[peer]["ana"] for peer in ("bo", "cy")}
    assert again.reveal(commitments["ana"]) == {peer: reveals[peer]["ana"] for peer in ("bo", "cy")}
    assert again.settle(reveals["ana"]) == group["ana"].settle(reveals["ana"])


def test_the_coordinator_sees_neither_contributions_nor_commitments() -> None:
    group = members()
    commitments = committed(group)
    reveals = revealed(group, commitments)
    seen = b"".join(letter for letters in (commitments, reveals) for box in letters.values() for letter in box.values())
    for member in group.values():
        for hidden in (member._nonce.expose(), member._contribution.expose(), member._own_commitment()):
            assert hidden not in seen
    assert group["ana"].settle(reveals["ana"]).expose() not in seen


# --- a party gone bad: it holds its own session and can seal what it likes ---


class Rogue(GroupSecret):
    """A party that changes what it says towards one peer."""

    def __init__(self, session: Session, *, victim: str, at: int, alter: object) -> None:
        super().__init__(session, "sketches", STEP, runs.seed("group", session.party))
        self._victims, self._at, self._alter = victim, at, alter

    def _sealed(self, step: int, plaintext: bytes) -> dict[str, bytes]:
        said = {
            peer: self._alter(plaintext) if step == self._at and peer in self._victims else plaintext
            for peer in self._session.peers
        }
        return {peer: self._session.seal(peer, step, 0, body) for peer, body in said.items()}


def with_rogue(victims: object, at: int, alter: object) -> dict[str, GroupSecret]:
    group = members()
    group["bo"] = Rogue(runs.sessions()["bo"], victim=victims, at=at, alter=alter)
    return group


def flipped(position: int) -> object:
    return lambda body: body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]


@pytest.mark.parametrize("position", [0, 31, 32, 63])
def test_revealing_something_other_than_was_committed_is_refused(position: int) -> None:
    group = with_rogue(("ana", "cy"), STEP + 1, flipped(position))
    reveals = revealed(group, committed(group))
    for honest in ("ana", "cy"):
        with pytest.raises(ProtocolError, match="had not committed to"):
            group[honest].settle(reveals[honest])


def test_committing_differently_towards_different_peers_is_refused_by_all_of_them() -> None:
    other = GroupSecret(runs.sessions()["bo"], "sketches", STEP, runs.seed("a second contribution"))
    group = with_rogue(("cy",), STEP, lambda _: other._own_commitment())
    commitments = committed(group)
    reveals = revealed(group, commitments)
    # towards each peer the rogue then reveals just what it committed to there, with the view that peer has
    shown = other._nonce.expose() + other._contribution.expose() + group["cy"]._view
    reveals["cy"]["bo"] = runs.sessions()["bo"].seal("cy", STEP + 1, 0, shown)
    for honest in ("ana", "cy"):
        with pytest.raises(ProtocolError, match="differently"):
            group[honest].settle(reveals[honest])


def test_a_copied_commitment_cannot_be_opened_under_another_name() -> None:
    group = members()
    copied = group["ana"]._own_commitment()
    group["bo"] = Rogue(runs.sessions()["bo"], victim=("ana", "cy"), at=STEP, alter=lambda _: copied)
    commitments = committed(group)
    reveals = revealed(group, commitments)
    shown = group["ana"]._nonce.expose() + group["ana"]._contribution.expose() + group["cy"]._view
    reveals["cy"]["bo"] = runs.sessions()["bo"].seal("cy", STEP + 1, 0, shown)
    with pytest.raises(ProtocolError, match="had not committed to"):
        group["cy"].settle(reveals["cy"])


# --- a coordinator gone bad ---


def test_a_reveal_before_all_commitments_is_refused() -> None:
    group = members()
    reveals = revealed(group, committed(group))
    late = GroupSecret(runs.sessions()["ana"], "sketches", STEP, runs.seed("group", "ana"))
    with pytest.raises(ProtocolError, match="before all commitments"):
        late.settle(reveals["ana"])
