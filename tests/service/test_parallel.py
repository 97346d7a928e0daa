"""Many secure studies at once over the network, on three parties and a node: right, paid exactly, and nothing grows."""

import itertools
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.protocol import messages
from colonnade.protocol.messages import GetAccount, Post
from tests import kit
from tests.federations import joined
from tests.party.test_serving import RUDE
from tests.service.lines import until
from tests.service.served import Site

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.full,  # in one process: tests/conversations/test_side_by_side.py
]

EPSILON = 64.0
"""So much that noise is zero but once in 10²⁰ draws: an answer is right if it is the truth."""

LITTLE = 0.5
"""For thousands of studies. Noise is well below `FAR`; shares that do not belong together add up to numbers far above."""

FAR = 200

COLUMNS = [
    ["bank.segment", "telco.plan"],
    ["telco.plan", "insurer.product"],
    ["bank.segment", "insurer.product"],
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("n"), nodes=("auditor",), epsilon=10_000.0, test_key=None)
    made.start()
    try:
        made.ready()
        yield made
    finally:
        made.stop()


_draw = itertools.count(1)


def study(federation: cn.Federation, number: int, epsilon: float = EPSILON) -> cn.PatternCount:
    return cn.PatternCount(COLUMNS[number % len(COLUMNS)], epsilon=epsilon).fit(federation, repeat=number)


def check(site: Site, found: cn.PatternCount, within: float = 0) -> None:
    people = joined({name: site.tables[name] for name in site.parties})
    truth = people.groupby(list(found.counts_.index.names)).size().reindex(found.counts_.index, fill_value=0)
    assert ((found.unbiased_ - truth).abs() <= within).all()


def spent(site: Site) -> dict[str, float]:
    """What every ledger holds, in whole ε: all that is paid here is pure, and adds up exactly."""
    total = {}
    for party in site.parties:
        with SqliteLedger.open(site.members[party].path / "ledger.sqlite") as ledger:
            total[party] = round(ledger.spent().epsilon(0.0), 6)
    return total


def prices(studies: list[cn.PatternCount]) -> dict[str, float]:
    parties = [(party, found.plan_.price.epsilon) for found in studies for party in found.plan_.parties]
    return {party: sum(price for one, price in parties if one == party) for party in ("bank", "telco", "insurer")}


def exits(site: Site) -> list[dict]:
    """Every end of a process that its supervisor saw."""
    return [event for name in site.members for event in site.events(name, "exited")]


def test_secure_studies_at_once_are_all_right_and_the_ledgers_hold_the_sum_of_their_prices(site):
    """From threads of one coordinator, over two objects on one connection."""
    before, ended = spent(site), len(exits(site))
    with site.connect() as federation:
        other = cn.Federation(
            federation._driver.transport,
            parties=federation.parties,
            compute_nodes=federation._driver.computing.nodes,
            agreement=site.papers,
            journal=federation._driver.journal,
        )
        numbers = [next(_draw) for _ in range(20)]
        with ThreadPoolExecutor(len(numbers)) as pool:
            found = list(pool.map(lambda number: study((federation, other)[number % 2], number), numbers))
        again = [study(federation, number) for number in numbers[:3]]
    for one in [*found, *again]:
        check(site, one)
    paid = prices(found)
    assert {name: total - before[name] for name, total in spent(site).items()} == paid
    assert all("nothing spent" in one.receipt_ for one in again)
    assert len(exits(site)) == ended


def test_one_study_from_many_threads_is_paid_once(site):
    before, number = spent(site), next(_draw)
    with site.connect() as federation, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: study(federation, number), range(8)))
    for one in found:
        check(site, one)
    assert {name: total - before[name] for name, total in spent(site).items()} == prices(found[:1])


def test_clients_that_hang_up_end_no_guard_and_studies_go_on_beside_them(site):
    """The same socket that the relay uses, and a monitor that asks and does not wait for the answer."""
    request = messages.encode(GetAccount())
    pids, ended = {name: site.pid(name, "guard") for name in site.members}, len(exits(site))
    stop = threading.Event()

    def be_rude() -> None:
        for act in itertools.cycle(RUDE):
            for member in site.members.values():
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                    connection.connect(str(member.socket))
                    act(connection, request)
            if stop.wait(0.02):
                return

    rude = threading.Thread(target=be_rude)
    rude.start()
    try:
        with site.connect() as federation:
            found = [study(federation, next(_draw)) for _ in range(4)]
    finally:
        stop.set()
        rude.join()
    for one in found:
        check(site, one)
    assert len(exits(site)) == ended
    assert {name: site.pid(name, "guard") for name in site.members} == pids


class Staggered:
    """A transport on which the last turn reaches one member later than the others; something happens in between."""

    def __init__(self, inner, late: str, act) -> None:
        self.inner, self.late, self.act = inner, late, act

    def exchange(self, requests):
        first = messages.decode_request(next(iter(requests.values())))
        if self.act is None or len(requests) < 2 or not isinstance(first, Post) or first.turn != 4:
            return self.inner.exchange(requests)
        act, self.act = self.act, None
        self.inner.exchange({name: data for name, data in requests.items() if name != self.late})
        act()
        return self.inner.exchange(requests)

    def close(self) -> None:
        self.inner.close()


def test_with_a_node_without_data_a_guard_lost_at_the_opening_loses_nothing_and_is_paid_once(site):
    number = next(_draw) * len(COLUMNS)  # of the first pair of columns
    with site.connect() as federation:
        inner, before = federation._driver.transport, spent(site)
        federation._driver.transport = Staggered(inner, "bank", lambda: site.kill("bank", "guard"))
        check(site, study(federation, number))
        paid = {name: total - before[name] for name, total in spent(site).items() if total != before[name]}
        assert paid == pytest.approx({"bank": EPSILON, "telco": EPSILON})
        federation._driver.transport = inner
        check(site, study(federation, number))
        assert spent(site) == pytest.approx({**before, **{name: before[name] + EPSILON for name in paid}})


def test_a_node_without_data_that_is_lost_after_it_opened_sends_its_share_again(site):
    number = next(_draw)
    with site.connect() as federation:
        inner, before = federation._driver.transport, spent(site)
        federation._driver.transport = Staggered(inner, "bank", lambda: site.kill("auditor", "guard"))
        found = study(federation, number)
        check(site, found)
        federation._driver.transport = inner
        assert {name: total - before[name] for name, total in spent(site).items()} == prices([found])


# The whole matrix -----------------------------------------------------------------------------------------------------------


def test_studies_at_once_while_processes_are_killed_are_right_or_lost_and_paid_exactly(site):
    """Guards, relays and the node, at random. Every study ends right or with a typed error whose cost is in the ledgers."""
    generator, before, ended = kit.generator("kills beside studies"), spent(site), threading.Event()
    results: list[cn.PatternCount | ColonnadeError] = []

    def attempt(federation: cn.Federation, number: int) -> cn.PatternCount | ColonnadeError:
        try:
            return study(federation, number, LITTLE)
        except ColonnadeError as error:
            return error

    def kill() -> None:
        while not ended.wait(float(generator.uniform(2.0, 4.0))):
            name, process = generator.choice(list(site.members)), generator.choice(["guard", "relay"])
            try:
                site.kill(str(name), str(process))
            except ProcessLookupError:
                continue  # it has not been restarted yet

    with site.connect() as federation:
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            with ThreadPoolExecutor(20) as pool:
                numbers = [next(_draw) for _ in range(40)]
                results = list(pool.map(lambda number: attempt(federation, number), numbers))
        finally:
            ended.set()
            killer.join()
        until(
            lambda: set(federation._driver.transport.connected()) == set(site.members), 60, what="everybody coming back"
        )
        federation.budget()
    total = dict.fromkeys(site.parties, 0.0)
    for result in results:
        if isinstance(result, ColonnadeError):
            assert result.code in ("release-lost", "party-away", "protocol-error", "busy"), result
            costs = result.spent or {}
        else:
            check(site, result, FAR)
            costs = dict.fromkeys(result.plan_.parties, LITTLE)
        for party, cost in costs.items():
            total[party] += cost
    after = {name: spent_now - before[name] for name, spent_now in spent(site).items()}
    assert all(after[party] <= total[party] + 1e-6 for party in site.parties)  # what may have been paid counts as paid
    killed = {-signal.SIGKILL}
    assert {event["status"] for event in exits(site)} <= killed
