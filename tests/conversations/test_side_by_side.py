"""Studies side by side at the same members: in any order, from many threads, by a coordinator gone bad, and too many."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from colonnade.conversations import endpoint
from colonnade.conversations.memory import RunRecords
from colonnade.conversations.products import ProductRun
from colonnade.coordinator import driver
from colonnade.coordinator.driver import StudyQueue
from colonnade.errors import Busy, ColonnadeError, LedgerCorrupt, ReleaseLost
from colonnade.plan import Plan
from colonnade.protocol import messages
from colonnade.protocol.messages import Blob, Greeted, Opened, Post, Posted, Refused, Request
from tests import kit
from tests.conversations.sites import EPSILON, STEP, Opens, Site, replaced

MANY = 20


@pytest.fixture
def audited(tmp_path):
    site = Site(tmp_path, parties=("bank", "telco"), nodes=("auditor",))
    yield site
    site.close()


class Study:
    """One study that a test drives round by round."""

    def __init__(self, site: Site, plan: Plan) -> None:
        self.site, self.plan = site, site.agreed(plan)
        self.rounds = Opens(tuple(step for step in plan.steps if step.name == STEP)).rounds(plan)
        self.requests: dict[str, Request] = dict(next(self.rounds))
        self.result: list[int] | None = None

    def advance(self) -> bool:
        """Send one round; return whether there is another."""
        replies = {name: self.site.ask(name, request) for name, request in self.requests.items()}
        assert not any(isinstance(reply, Refused) for reply in replies.values()), replies
        try:
            self.requests = dict(self.rounds.send(replies))
        except StopIteration as finished:
            self.result = finished.value.cross.tolist()
            return False
        return True


def interleaved(studies: Sequence[Study], choose: Callable[[int], int]) -> None:
    left = list(studies)
    while left:
        study = left[choose(len(left))]
        if not study.advance():
            left.remove(study)


def check(site: Site, plans: Sequence[Plan], results: Sequence[object]) -> None:
    """Every answer is exact, given the noise that was paid for once; every ledger holds the sum of the prices."""
    for plan, result in zip(plans, results, strict=True):
        assert result == site.expected(plan)
    assert site.spent() == dict.fromkeys(site.parties, round(len(plans) * EPSILON, 6))
    for name in site.parties:
        kinds = [entry.kind for entry in site.ledger(name).entries()]
        assert kinds.count("reserve") == len(plans)


@pytest.mark.every(2)
@pytest.mark.parametrize("order", ["in turn", "at random", "the last first"])
def test_studies_whose_turns_are_interleaved_are_all_right_and_paid_once(order, site):
    generator = kit.generator(f"interleaved {order}")
    counter = iter(range(10**9))
    choose = {
        "in turn": lambda left: next(counter) % left,
        "at random": lambda left: int(generator.integers(left)),
        "the last first": lambda left: left - 1,
    }[order]
    studies = [Study(site, site.plan(repeat)) for repeat in range(1, 7)]
    interleaved(studies, choose)
    check(site, [study.plan for study in studies], [study.result for study in studies])


def test_studies_from_many_threads_are_all_right_and_paid_once(site):
    plans = [site.plan(repeat) for repeat in range(1, MANY + 1)]
    with ThreadPoolExecutor(MANY) as pool:
        results = list(pool.map(site.run, plans))
    check(site, plans, results)


def test_a_study_that_fails_leaves_those_beside_it_alone(site):
    studies = [Study(site, site.plan(repeat)) for repeat in range(1, 4)]
    for study in studies:
        for _ in range(3):
            study.advance()
    post = studies[0].requests["telco"]
    assert isinstance(post, Post)
    assert isinstance(site.ask("telco", replaced(post, letters={})), Refused)
    assert isinstance(site.ask("telco", post), Refused)  # that one is over
    interleaved(studies[1:], lambda left: left - 1)
    assert site.run(studies[0].plan) == site.expected(studies[0].plan)
    check(site, [study.plan for study in studies], [site.run(study.plan) for study in studies])


# A coordinator gone bad -----------------------------------------------------------------------------------------------------


def begin(site: Site, plan: Plan, run: bytes, step: str = STEP) -> dict[str, Post]:
    """Turn 0 of a run at every member; return the posts of turn 1."""
    hellos = {}
    site.agreed(plan)
    for name in site.parties:
        reply = site.ask(name, Post(plan=plan, step=step, run=run, turn=0, letters={}))
        assert isinstance(reply, Greeted), reply
        hellos[name] = reply.hello
    letters = {name: Blob(hello) for name, hello in hellos.items()}
    return {name: Post(plan=plan, step=step, run=run, turn=1, letters=letters) for name in site.parties}


def test_two_runs_of_one_step_are_never_under_way_together(site):
    """Whichever turn the first has reached, the second takes its place: what was dealt in it meets nothing any more."""
    plan = site.plan()
    first = begin(site, plan, b"1" * 16)
    dealt = {name: site.ask(name, post) for name, post in first.items()}
    assert all(isinstance(reply, Posted) for reply in dealt.values())
    second = begin(site, plan, b"2" * 16)
    for name, post in first.items():
        for turn in (1, 2):
            assert isinstance(site.ask(name, replaced(post, turn=turn)), Refused)
    again = {name: site.ask(name, post) for name, post in second.items()}
    assert all(isinstance(reply, Posted) for reply in again.values())
    for name in site.parties:  # the same words, under fresh keys
        for receiver, letter in again[name].letters.items():
            assert letter != dealt[name].letters[receiver]
    assert site.run(plan) == site.expected(plan)
    check(site, [plan], [site.run(plan)])


def test_a_coordinator_that_runs_a_step_twice_at_once_is_told_the_same_twice(site):
    """Both runs are driven turn by turn, at different members in different orders: every member opens the same bytes."""
    plan = site.plan()
    one, other = Study(site, plan), Study(site, plan)
    opened: dict[str, set[bytes]] = {name: set() for name in site.parties}
    generator = kit.generator("two runs at once")
    for _ in range(40):
        study = (one, other)[int(generator.integers(2))]
        replies = {name: site.ask(name, request) for name, request in study.requests.items()}
        for name, reply in replies.items():
            if isinstance(reply, Opened):
                opened[name].add(messages.encode(reply))
        if any(isinstance(reply, Refused) for reply in replies.values()):
            study.__init__(site, plan)  # the coordinator starts over
            continue
        try:
            study.requests = dict(study.rounds.send(replies))
        except (StopIteration, ColonnadeError):
            study.__init__(site, plan)
    assert all(len(answers) <= 1 for answers in opened.values())
    assert all(count == EPSILON for count in site.spent().values())
    for name in site.parties:
        kinds = [entry.kind for entry in site.ledger(name).entries()]
        assert kinds.count("reserve") == 1


# Too many -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def now() -> list[float]:
    """A clock that tests set."""
    return [0.0]


def room_for(site: Site, count: int, now: list[float]) -> None:
    for guard in site.endpoints.values():
        guard._runs._at_once = count
        guard._runs._clock = lambda: now[0]


def test_a_member_with_too_many_studies_is_busy_says_for_how_long_and_charges_nothing(site, now):
    room_for(site, 3, now)
    for repeat in range(1, 4):
        begin(site, site.plan(repeat), b"r" * 16)
    reply = site.ask("bank", Post(plan=site.agreed(site.plan(4)), step=STEP, run=b"r" * 16, turn=0, letters={}))
    assert isinstance(reply, Refused)
    assert (reply.code, reply.spent) == ("busy", None)
    assert reply.retry_in is not None
    assert 0 < reply.retry_in <= endpoint.LONGEST_WAIT
    error = reply.error("bank")
    assert isinstance(error, Busy)
    assert error.retry_in == reply.retry_in
    assert set(site.spent().values()) == {0}
    begin(site, site.plan(2), b"s" * 16)  # a study that has its place keeps it
    now[0] += endpoint.IDLE + 1
    assert isinstance(site.ask("bank", Post(plan=site.plan(4), step=STEP, run=b"r" * 16, turn=0, letters={})), Greeted)


def test_a_run_that_is_over_makes_room_at_once_and_its_last_answer_is_sent_again_until_then(site, now):
    room_for(site, 1, now)
    for repeat in range(1, 6):
        plan = site.plan(repeat)
        assert site.run(plan) == site.expected(plan)
    last = next(
        asked["bank"]
        for asked, _ in reversed(site.rounds)
        if isinstance(asked.get("bank"), Post) and asked["bank"].turn
    )
    study = Study(site, site.plan(6))
    while not (isinstance(study.requests["bank"], Post) and study.requests["bank"].turn == last.turn):
        study.advance()
    answers = [site.ask("bank", study.requests["bank"]) for _ in range(3)]
    assert all(isinstance(answer, Opened) for answer in answers)
    assert len({messages.encode(answer) for answer in answers}) == 1
    assert site.endpoints["bank"]._runs._runs[messages.digest(study.plan)].conversation is None


def test_a_member_that_stays_busy_ends_the_study_with_a_typed_error_at_no_cost(site, now, monkeypatch):
    room_for(site, 1, now)
    begin(site, site.plan(9), b"r" * 16)
    waits: list[float] = []
    plan, patience = site.plan(), 3 * endpoint.LONGEST_WAIT
    monkeypatch.setattr(driver, "PATIENCE", patience)
    with pytest.raises(Busy) as refusal:
        driver.run_study(Opens(plan.steps), plan, site, lambda step: None, pause=waits.append)
    assert refusal.value.spent is None
    assert sum(waits) == pytest.approx(patience, abs=endpoint.LONGEST_WAIT)
    assert set(site.spent().values()) == {0}


def test_members_forget_what_is_over(audited):
    """However many studies there were, so many runs are remembered at most, and of those that are over only the last answer."""
    held: list[weakref.ref] = []
    honest = ProductRun.__init__

    def counted(self, *args, **kwargs) -> None:
        honest(self, *args, **kwargs)
        held.append(weakref.ref(self))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProductRun, "__init__", counted)
        for guard in audited.endpoints.values():
            guard._runs._at_once = 5
        for repeat in range(1, 8):
            audited.run(audited.plan(repeat))
    gc.collect()
    assert len(held) == 7 * 3
    assert not any(reference() for reference in held)
    counts = {name: len(guard._runs._runs) for name, guard in audited.endpoints.items()}
    assert counts == {"bank": 0, "telco": 0, "auditor": 0}  # all are told that it is over


# Members without data -------------------------------------------------------------------------------------------------------


def opens_but(site: Site, plan: Plan, name: str) -> None:
    """Run a study in which one member is killed before it opens, and the others have."""
    study = Study(site, plan)
    while not (isinstance(study.requests["bank"], Post) and study.requests["bank"].turn == 4):
        study.advance()
    for member, request in study.requests.items():
        if member != name:
            assert isinstance(site.ask(member, request), Opened)
    site.kill(name)


@pytest.mark.parametrize("name", ["bank", "auditor"])
def test_a_member_that_was_killed_as_the_others_opened_opens_too_when_it_is_asked_again(name, audited):
    plan = audited.plan()
    opens_but(audited, plan, name)
    for _ in range(3):
        assert audited.run(plan) == audited.expected(plan)
    assert audited.spent() == dict.fromkeys(audited.parties, EPSILON)


def test_a_node_that_has_lost_what_it_said_finds_nobody_to_talk_to(audited):
    plan = audited.plan()
    opens_but(audited, plan, "telco")
    (audited.folder / "auditor.openings").unlink()
    audited.kill("auditor")
    with pytest.raises(ReleaseLost, match="Something else"):
        audited.run(plan)


def test_what_was_said_is_kept_for_good_and_the_bytes_of_openings_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.conversations.memory.ANSWERS", 3)
    for path in (tmp_path / "openings.sqlite", None):
        records = RunRecords(path)
        for number in range(8):
            plan = bytes([number]) * 32
            assert records.secret(plan, STEP, b"first") == b"first"
            records.keep(plan, STEP, 4, digest=b"words", opened=(0, b"share %d" % number))
        for kept in (records, records if path is None else RunRecords(path)):
            found = [kept.opened(bytes([number]) * 32, STEP, 0) for number in range(8)]
            assert found == [None] * 5 + [b"share 5", b"share 6", b"share 7"]
            assert all(kept.secret(bytes([number]) * 32, STEP, b"second") == b"first" for number in range(8))
            assert not kept.knows(bytes(32), "another step")
            kept.keep(bytes(32), STEP, 4, digest=b"words", opened=(0, b"share 0"))
            with pytest.raises(ReleaseLost, match="Something else"):
                kept.keep(bytes(32), STEP, 4, digest=b"other words")
        records.conclude(bytes(32), STEP)
        with pytest.raises(ReleaseLost, match="concluded"):
            records.secret(bytes(32), STEP, b"third")
    assert (tmp_path / "openings.sqlite").stat().st_mode & 0o077 == 0


def test_tiles_are_kept_until_their_step_is_concluded(monkeypatch):
    """`EstimateFailed` promises that the same call fetches them again, however many studies came between."""
    monkeypatch.setattr("colonnade.conversations.memory.ANSWERS", 3)
    records = RunRecords()

    def opens(number: int, tiles: int) -> None:
        records.secret(bytes([number]) * 32, STEP, b"drawn")
        for tile in range(tiles):
            records.keep(bytes([number]) * 32, STEP, 4 + tile, digest=b"words", opened=(tile, b"tile %d" % tile))

    def kept() -> list[bytes | None]:
        return [records.opened(bytes(32), STEP, tile) for tile in range(10)]

    opens(0, tiles=10)
    for number in range(1, 8):
        opens(number, tiles=1)
    assert kept() == [b"tile %d" % tile for tile in range(10)]
    records.conclude(bytes(32), STEP)
    opens(8, tiles=1)
    assert kept() == [None] * 10


def test_an_old_copy_of_what_was_said_is_refused_and_deleting_it_only_loses_steps(tmp_path):
    """A party that forgot its last turns would add the same noise at other weights."""
    path, copy = tmp_path / "openings.sqlite", tmp_path / "copy"
    records = RunRecords(path)
    records.secret(bytes(32), STEP, b"drawn")
    records.keep(bytes(32), STEP, 1, digest=b"words")
    copy.write_bytes(path.read_bytes())
    records.keep(bytes(32), STEP, 2, digest=b"at some weights")
    path.write_bytes(copy.read_bytes())
    for forgetful in (lambda: records, lambda: RunRecords(path)):
        with pytest.raises(LedgerCorrupt, match="gone back"):
            forgetful().keep(bytes(32), STEP, 2, digest=b"at other weights")
    path.unlink()
    assert not RunRecords(path).knows(bytes(32), STEP)
    RunRecords(path).keep(bytes(32), "another step", 1, digest=b"words")
    path.write_bytes(copy.read_bytes())
    with pytest.raises(LedgerCorrupt, match="gone back"):
        RunRecords(path)


# The line at the coordinator ------------------------------------------------------------------------------------------------


def test_studies_wait_in_line_first_come_first_served_and_never_two_of_one_plan():
    queue, log, gates = StudyQueue(at_once=2), [], {}

    def study(number: int, plan: str) -> None:
        with queue.turn(plan):
            log.append(number)
            assert gates[number].wait(30)

    threads = []
    for number, plan in enumerate(["a", "a", "b", "c", "b", "d"]):
        gates[number] = threading.Event()
        threads.append(threading.Thread(target=study, args=(number, plan)))
        threads[-1].start()
        until(lambda number=number: len(queue._waiting) + len(log) > number)
    until(lambda: len(log) == 2)
    assert log == [0, 2]  # 1 waits for its own plan; 3 for room
    for ended, then in ((2, 3), (3, 4), (0, 1), (4, 5)):
        gates[ended].set()
        until(lambda then=then: then in log)
    for gate in gates.values():
        gate.set()
    for thread in threads:
        thread.join()
    assert log == [0, 2, 3, 4, 1, 5]
    assert queue.under_way == 0


def until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
