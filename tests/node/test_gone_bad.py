"""A coordinator gone bad, and a party gone bad: refused with a typed error before anything is paid, dealt or opened."""

from collections.abc import Iterator

import numpy as np
import pytest

from colonnade.errors import ColonnadeError, ProtocolError
from colonnade.node import joint as joint_module
from colonnade.node import run as run_module
from colonnade.node.challenge import Chain
from colonnade.node.letters import Letter
from colonnade.plan import Plan, Step
from colonnade.privacy.price import Price
from colonnade.protocol import codec
from colonnade.protocol.messages import Agreed, Ask, Blob, Greeted, Opened, Post, Posted, Propose, Refused
from colonnade.secure.shamir import Dealing, check_repetitions
from tests import kit
from tests.node.sites import STEP, Site, replaced
from tests.node.stage import NAMES, Stage, Watched, a_plan, altered, members, noise_room, seed, some_tables

RUN = bytes(range(16))


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def pair(tmp_path) -> Iterator[Site]:
    """Two parties, and the coordinator as the third node."""
    site = Site(tmp_path, parties=("bank", "telco"), nodes=("coordinator",))
    yield site
    site.close()


# A coordinator gone bad: plans ----------------------------------------------------------------------------------------------


def _first(plan: Plan, **changes) -> tuple[Step, ...]:
    return (replaced(plan.steps[0], **changes), *plan.steps[1:])


BAD_PLANS = {
    "threshold zero": lambda plan: {"threshold": 0},
    "a negative threshold": lambda plan: {"threshold": -1},
    "a threshold that cannot open products": lambda plan: {"threshold": 2},
    "collusion above the threshold": lambda plan: {"collusion": 2},
    "negative collusion": lambda plan: {"collusion": -1},
    "a node twice": lambda plan: {"compute_nodes": ("bank", "telco", "bank")},
    "two nodes": lambda plan: {"compute_nodes": ("bank", "telco")},
    "no nodes": lambda plan: {"compute_nodes": ()},
    "a node that nobody knows": lambda plan: {"compute_nodes": ("bank", "telco", "mallory")},
    "the coordinator as an unknown node": lambda plan: {"compute_nodes": ("bank", "telco", "insurer", "coordinator")},
    "another federation": lambda plan: {"federation": "0" * 64},
    "another alignment": lambda plan: {"alignment": "0" * 64},
    "another number of people": lambda plan: {"people": plan.people + 1},
    "somebody who is not a data party of the plan": lambda plan: {"parties": ("bank", "telco")},
    "a party alone": lambda plan: {"parties": ("bank",), "steps": plan.steps[:1]},
    "different prices": lambda plan: {"steps": _first(plan, price=Price.of(0.1))},
    "no price": lambda plan: {"steps": tuple(replaced(step, price=None) for step in plan.steps)},
    "two statistics under one name": lambda plan: {"steps": _first(plan, statistic="histogram")},
    "a width that is not the party's": lambda plan: {"steps": _first(plan, parameters={"width": 4})},
    "no width": lambda plan: {"steps": _first(plan, parameters={})},
    "a width of zero": lambda plan: {"steps": _first(plan, parameters={"width": 0})},
    "a parameter that is not the statistic's": lambda plan: {
        "steps": _first(plan, parameters={"width": 3, "noise": 0})
    },
    "a column that is not in the schema": lambda plan: {"steps": _first(plan, columns=("salary",))},
    "a price above the cap": lambda plan: {
        "steps": tuple(replaced(step, price=Price.of(9_000.0)) for step in plan.steps)
    },
}


@pytest.mark.parametrize("fault", BAD_PLANS)
def test_a_plan_with_this_is_refused_and_costs_nothing(fault, site):
    """By the bank, to whom it is put, when it is proposed and when a run is begun at once, unannounced."""
    plan = replaced(site.plan(), **BAD_PLANS[fault](site.plan()))
    for request in (Propose(plan=plan), Post(plan=plan, step=STEP, run=RUN, turn=0, letters={})):
        reply = site.ask("bank", request)
        if fault == "a price above the cap" and isinstance(request, Post):
            assert isinstance(reply, Greeted)  # a hello costs nothing; the first share would be refused
            continue
        assert isinstance(reply, Refused)
        assert reply.code in {
            "plan-mismatch",
            "not-enough-compute-nodes",
            "bad-input",
            "schema-mismatch",
            "protocol-error",
            "budget-exceeded",
            "nonprivate-refused",
        }
        assert reply.spent is None
    assert set(site.spent().values()) == {0}


def test_a_joint_step_is_not_answered_as_if_it_were_the_partys_own(site):
    reply = site.ask("bank", Ask(plan=site.plan(), step=STEP))
    assert isinstance(reply, Refused)
    assert set(site.spent().values()) == {0}


def test_whoever_computes_without_data_cannot_be_made_to_share_rows(pair):
    """A coordinator that dealt columns of its own could deal a huge indicator of one row, and open that row."""
    plan = pair.plan()
    spy = replaced(plan.steps[0], party="coordinator", columns=("anything",))
    for changes in (
        {"steps": (*plan.steps, spy)},
        {"steps": (*plan.steps, spy), "parties": ("bank", "telco", "coordinator")},
    ):
        for name in ("bank", "telco"):
            for request in (
                Propose(plan=replaced(plan, **changes)),
                Post(plan=replaced(plan, **changes), step=STEP, run=RUN, turn=0, letters={}),
            ):
                reply = pair.ask(name, request)
                assert isinstance(reply, Refused)
                assert reply.code == "plan-mismatch"
    assert isinstance(pair.ask("bank", Propose(plan=plan)), Agreed)  # the plan itself was fine


def relay_by_hand(site: Site, posts: dict[str, Post], turns: int = 2) -> dict[int, dict]:
    """Greet with whatever each member was shown, then give everybody everybody's hello."""
    said: dict[int, dict] = {0: {name: site.ask(name, post) for name, post in posts.items()}}
    hellos = {name: Blob(reply.hello) for name, reply in said[0].items()}
    for turn in range(1, turns):
        said[turn] = {name: site.ask(name, replaced(post, turn=turn, letters=hellos)) for name, post in posts.items()}
    return said


def test_different_plans_to_different_parties_are_found_out_by_all_before_anybody_pays(site):
    honest = site.plan()
    other = replaced(honest, repeat=2)
    posts = {
        name: Post(plan=other if name == "telco" else honest, step=STEP, run=RUN, turn=0, letters={})
        for name in site.parties
    }
    said = relay_by_hand(site, posts)
    assert {reply.code for reply in said[1].values()} == {"plan-mismatch"}  # alike, at every honest party
    assert {reply.spent for reply in said[1].values()} == {None}
    assert set(site.spent().values()) == {0}


def test_steps_of_one_plan_cannot_be_mixed_into_one_run(site):
    """The bank at the price of a step with much noise, its peers at that of one with little: their sum would hide less."""
    plan = site.plan()
    cheap = tuple(replaced(step, name="cheap", price=Price.of(0.01)) for step in plan.steps)
    plan = replaced(plan, steps=(*plan.steps, *cheap))
    posts = {
        name: Post(plan=plan, step="cheap" if name == "bank" else STEP, run=RUN, turn=0, letters={})
        for name in site.parties
    }
    said = relay_by_hand(site, posts)
    assert {reply.code for reply in said[1].values()} == {"plan-mismatch"}
    assert set(site.spent().values()) == {0}
    alike = relay_by_hand(site, {name: replaced(post, step="cheap") for name, post in posts.items()})
    assert all(isinstance(reply, Posted) for reply in alike[1].values())  # unmixed, the same plan runs


def test_parties_in_different_runs_do_not_understand_each_other(site):
    posts = {
        name: Post(plan=site.plan(), step=STEP, run=RUN[::-1] if name == "bank" else RUN, turn=0, letters={})
        for name in site.parties
    }
    assert {reply.code for reply in relay_by_hand(site, posts)[1].values()} == {"plan-mismatch"}
    assert set(site.spent().values()) == {0}


def test_a_coordinator_that_answers_in_a_partys_place_is_found_out(site):
    """It has a key of its own, and nobody's signature but that."""
    posts = {name: Post(plan=site.plan(), step=STEP, run=RUN, turn=0, letters={}) for name in site.parties}
    hellos = {name: Blob(site.ask(name, post).hello) for name, post in posts.items()}
    mallory = replaced(site.plan(), compute_nodes=site.plan().compute_nodes)
    forger = run_module.Run(
        replaced_member("insurer", "mallory"), mallory, STEP, RUN, dealer=None, secret=seed("mallory")
    )
    hellos["insurer"] = Blob(forger.turn(0, {}).hello)
    for name in ("bank", "telco"):
        reply = site.ask(name, replaced(posts[name], turn=1, letters=hellos))
        assert isinstance(reply, Refused)
        assert reply.code == "protocol-error"
    assert set(site.spent().values()) == {0}


def replaced_member(name: str, keys_of: str):
    return run_module.Member(name, members([keys_of])[keys_of].identity, members(NAMES))


# Identities -----------------------------------------------------------------------------------------------------------------


def swapped_keys(name: str) -> Stage:
    """One member was given two other members' keys the wrong way round."""
    plan = a_plan({"ana": 1, "bo": 1}, people=2)
    real = members(NAMES[:3])
    pinned = dict(real[name].pinned)
    one, other = [peer for peer in NAMES[:3] if peer != name]
    pinned[one], pinned[other] = pinned[other], pinned[one]
    wrong = run_module.Member(name, real[name].identity, pinned)
    return Stage(plan, some_tables(plan, kit.generator("swapped")), pinned={name: wrong})


@pytest.mark.parametrize("name", NAMES[:3])
def test_swapped_identity_keys_end_the_run_before_anybody_deals_to_the_one_deceived(name):
    stage = swapped_keys(name)
    turn, refused = stage.refusals()
    assert (turn, set(refused)) == (1, {name})
    assert refused[name].code == "protocol-error"
    if name in stage.tables:
        assert stage.tables[name].begun == 0


def test_one_member_under_two_names_is_refused_by_everybody():
    """Two points for one node would be two shares for one colluder."""
    plan = a_plan({"ana": 1, "bo": 1}, people=2)
    twin = members(["ana"])["ana"].identity
    pinned = {**members(NAMES[:3])["ana"].pinned, "cy": members(["ana"])["ana"].pinned["ana"]}
    people = {name: run_module.Member(name, member.identity, pinned) for name, member in members(NAMES[:3]).items()}
    people["cy"] = run_module.Member("cy", twin, pinned)
    turn, refused = Stage(plan, some_tables(plan, kit.generator("twin")), pinned=people).refusals()
    assert (turn, set(refused)) == (1, {"ana", "bo", "cy"})


# A party gone bad: letters --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _two_chunks(monkeypatch):
    monkeypatch.setattr(joint_module, "CHUNK_UNIT", 4)
    monkeypatch.setattr(joint_module, "CHUNK_ELEMENTS", 1)


def a_stage(cheat: type[Watched], *, cheats: str = "dee", nodes: int = 4, threshold: int | None = None) -> Stage:
    """Ana, Bo and Dee hold data, and everybody computes; two chunks of rows."""
    widths = {"ana": 2, "bo": 1, cheats: 2}
    plan = a_plan(widths, nodes=NAMES[:nodes], threshold=threshold, people=7, scale=20)
    return Stage(plan, some_tables(plan, kit.generator("gone bad")), kinds={cheats: cheat})


def writing(change) -> type[Watched]:
    """A member that writes other letters than it should."""

    class Writes(Watched):
        def alter(self, turn: int, receiver: str, letter: Letter) -> Letter:
            return change(self, turn, receiver, letter)

    return Writes


def part(name: str, edit):
    """Change one part of every letter that has it."""

    def change(run, turn, receiver, letter):
        value = getattr(letter, name)
        return altered(letter, **{name: edit(value)}) if value else letter

    return writing(change)


def out_of_range(blob: Blob) -> Blob:
    return Blob(b"\xff" * len(blob)) if len(blob) != 32 else blob


BAD_LETTERS = {
    "a share of rows out of range": part("share", out_of_range),
    "a share of noise out of range": part("noise", out_of_range),
    "a share of a mask out of range": part("mask", out_of_range),
    "a share of rows too short": part("share", lambda blob: Blob(blob.view[:-6])),
    "a share of rows too long": part("share", lambda blob: Blob(bytes(blob.view) + bytes(6))),
    "a short seed": part("table", lambda blob: Blob(blob.view[:-1])),
    "no share of rows": part("share", lambda _: None),
    "no share of noise": part("noise", lambda _: None),
    "no share of a mask": part("mask", lambda _: None),
    "no seed": part("table", lambda _: None),
    "another end of its chain": part("head", lambda _: seed("another end")),
    "no end of its chain": part("head", lambda _: b""),
    "a link of another chain": part("reveal", lambda _: Chain(seed("another chain"), 2).link(1)),
    "the end of its chain in place of a link": writing(
        lambda run, turn, receiver, letter: altered(letter, reveal=run._chain.head) if letter.reveal else letter
    ),
    "a link too early": writing(
        lambda run, turn, receiver, letter: altered(letter, reveal=run._chain.link(2)) if turn == 2 else letter
    ),
    "no link": part("reveal", lambda _: b""),
    "another account of the chains": part("heads", lambda _: seed("another account")),
    "no account of the chains": part("heads", lambda _: b""),
    "a check out of range": part("check", lambda check: {owner: out_of_range(part) for owner, part in check.items()}),
    "a wrong check": part("check", lambda check: {owner: Blob(bytes(len(part))) for owner, part in check.items()}),
    "a check left out": part("check", lambda check: {"ana": check["ana"]}),
    "no check": part("check", lambda _: {}),
}


@pytest.mark.parametrize("fault", BAD_LETTERS)
def test_a_member_that_writes_this_is_refused_before_anything_is_opened(fault):
    stage = a_stage(BAD_LETTERS[fault])
    turn, refused = stage.refusals()
    assert {error.code for error in refused.values()} <= {"protocol-error"}
    assert refused
    assert "dee" not in refused or "end of its chain" in fault
    assert not any(isinstance(reply, Opened) for name, reply in stage.said.items() if name in refused)
    if "check" not in fault:
        assert turn < stage.runs["ana"].last_turn
        assert not any(isinstance(reply, Opened) for reply in stage.said.values())
    else:
        assert set(refused) == {"ana", "bo", "cy"}  # honest nodes abort alike


class Talks(Watched):
    """Writes bytes that are no letter."""

    body = b"not a letter"

    def _compose(self, turn: int):
        letters = super()._compose(turn)
        if turn == 2:
            self._session._sealed.clear()
            return {node: Blob(self._session.seal(node, turn, 0, self.body)) for node in letters}
        return letters


@pytest.mark.parametrize(
    "body", [b"", b"not a letter", codec.encode(Letter()) + b"\0", codec.encode(Propose(plan=a_plan({"a": 1, "b": 1})))]
)
def test_sealed_bytes_that_are_no_letter_are_refused(body):
    turn, refused = a_stage(type("Talks", (Talks,), {"body": body})).refusals()
    assert (turn, set(refused)) == (3, {"ana", "bo", "cy"})


# A party gone bad: dealings -------------------------------------------------------------------------------------------------


def dealing(degree: int, *, what: str = "_table", chunk: int | None = None) -> type[Watched]:
    """A data party whose table or masks are dealt by polynomials of another degree, in one chunk or in all."""

    class Deals(Watched):
        def _meet(self, hellos) -> None:
            super()._meet(hellos)
            dealt = self._dealing
            assert dealt is not None
            honest = getattr(dealt, what)
            steep = Dealing(honest.arithmetic, nodes=honest.nodes, degree=degree, seed=honest._seed, bound=honest.bound)
            if what == "_mask":
                count = check_repetitions(honest.arithmetic)
                dealt._mask_shares = steep.shares(0, np.zeros(count, dtype=np.int64))
            else:
                dealt._table = _Mixed(honest, steep, chunk)

    return Deals


class _Mixed:
    """Deals one chunk by one dealing and the others by another."""

    def __init__(self, honest: Dealing, other: Dealing, chunk: int | None) -> None:
        self.honest, self.other, self.chunk = honest, other, chunk
        self.seeds = honest.seeds

    def shares(self, number, secrets):
        return (self.other if self.chunk in (None, number) else self.honest).shares(number, secrets)


@pytest.mark.parametrize(
    ("nodes", "threshold", "degree"), [(4, 1, 2), (4, 1, 3), (5, 2, 3), (5, 2, 4), (7, 2, 3), (6, 1, 2)]
)
@pytest.mark.parametrize("chunk", [None, 1, 2])
@pytest.mark.parametrize("cheats", ["dee", "hal"])
def test_a_table_of_the_wrong_degree_is_caught_by_every_honest_node_before_anything_is_opened(
    nodes, threshold, degree, chunk, cheats
):
    """Whether the cheat computes itself (Dee) or only holds data (Hal)."""
    stage = a_stage(dealing(degree, chunk=chunk), cheats=cheats, nodes=nodes, threshold=threshold)
    turn, refused = stage.refusals()
    assert turn == stage.runs["ana"].last_turn
    assert set(stage.joint.nodes) - {cheats} <= set(refused)
    assert {error.message for error in refused.values()} == {
        "Shares do not lie on a polynomial of the declared degree."
    }
    assert not any(isinstance(stage.said[name], Opened) for name in stage.joint.nodes if name != cheats)


def test_one_wrong_share_of_one_number_is_enough_to_be_caught():
    def nudge(run, turn, receiver, letter):
        if turn != 2 or receiver != "bo" or letter.share is None:
            return letter
        data = bytearray(letter.share.view)
        data[0] ^= 1
        return altered(letter, share=Blob(data))

    turn, refused = a_stage(writing(nudge)).refusals()
    assert turn == 5
    assert {"ana", "bo", "cy"} <= set(refused)


@pytest.mark.parametrize("degree", [2, 3])
def test_a_mask_of_the_wrong_degree_is_caught_too(degree):
    stage = a_stage(dealing(degree, what="_mask"))
    turn, refused = stage.refusals()
    assert turn == stage.runs["ana"].last_turn
    assert {"ana", "bo", "cy"} <= set(refused)


def test_nothing_is_opened_where_the_check_was_left_out(monkeypatch):
    """A seeded bug: the turn that verifies is skipped; the last door is shut all the same."""
    monkeypatch.setattr(run_module.Run, "_verify", lambda self, others: None)
    turn, refused = a_stage(Watched).refusals()
    assert turn == 5
    assert all("only after every dealing was checked" in error.message for error in refused.values())


class OpensOtherwise(Watched):
    """Opens another share than it computed."""

    def _finish(self):
        opened = super()._finish()
        share = np.frombuffer(opened.share.data.view, dtype="<u8").copy()
        share[0] ^= np.uint64(1)
        return Opened(share=run_module.pack(share), own=opened.own)


def test_a_share_that_was_changed_at_the_opening_is_caught_where_there_are_shares_to_compare():
    stage = a_stage(OpensOtherwise).play()
    with pytest.raises(ProtocolError, match="polynomial of the declared degree"):
        stage.opened  # noqa: B018
    assert stage.joint.threshold * 2 + 1 < len(stage.joint.nodes)


# Runs that are not what they should be --------------------------------------------------------------------------------------


def test_a_dealer_that_cannot_pay_deals_nothing():
    stage = a_stage(Watched)

    def refuse() -> bytes:
        raise ProtocolError("No.")

    stage.tables["bo"].begin = refuse
    turn, refused = stage.refusals()
    assert (turn, set(refused)) == (1, {"bo"})


def test_noise_that_would_wrap_is_not_dealt():
    stage = a_stage(Watched)
    stage.tables["ana"].noises = np.full(stage.joint.entries, 2**62)
    assert noise_room(stage.joint) < 2**62
    with pytest.raises(ColonnadeError):
        stage.play()
