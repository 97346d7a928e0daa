"""Parties on other machines, over NVIDIA FLARE: the same bytes each way, in parallel, asked again until they are answered.

A party is away when its relay, or the guard behind it, is not there; it may be away for ``patience`` seconds, whatever the
reason, before a round fails. A guard that is at work may take as long as it needs (``longest``).
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from colonnade.errors import BadInput, ColonnadeError, PartyAway, ProtocolError
from colonnade.protocol.agreement import COORDINATOR
from colonnade.protocol.codec import LARGEST_FRAME
from colonnade.runtime.event_log import Log
from colonnade.transport.engine import BLOCK, COORDINATOR_CELL, BlockAnswer, BlockCall, Line, Status, Verb
from colonnade.transport.kit import Kit, KnownCertificates

PATIENCE = 45.0
LONGEST = 3_600.0
BLOCK_SECONDS = 20.0
PAUSE = 0.2
ATTEMPTS = 5
"""How often a guard may die over one message, having been reached, before it is given up."""

AT_ONCE = 16
"""Messages on their way to one party; its relay takes more."""
KIT_SECONDS = 1.0
"""Seconds between two looks at the coordinator's own certificate."""


class _Away(Exception):
    """The relay or its guard is not there; the message starts again."""


@dataclass
class _Waiting:
    """A call whose answer has not come yet."""

    party: str
    arrived: threading.Event = field(default_factory=threading.Event)
    answer: BlockAnswer | None = None


@dataclass
class _Letter:
    """A message to one party, its number in this attempt, and when there was last a sign of its guard."""

    party: str
    data: memoryview
    seen: float
    number: int = 0
    reached: bool = False


class FlareTransport:
    """The coordinator's end of the line.

    Parameters
    ----------
    parties
        Who is connected, or will be: data parties and compute nodes.
    address
        What to listen on, ``"tcp://host:port"``.
    kit
        The coordinator's start-up kit.
    host
        The name in the coordinator's certificate.
    patience
        Seconds that a party may be away before a round fails; asking again is safe.
    longest
        Seconds that a guard may work on one answer.
    log
        Where connections and refused messages are noted.
    changed
        Called with the parties that are connected whenever one comes or goes.
    memory
        A file that keeps until when the certificates of parties last, as they were when they connected; ``None`` keeps it here.
    clock, calendar
        A monotonic clock, and seconds since 1970.
    """

    def __init__(
        self,
        parties: Sequence[str],
        *,
        address: str,
        kit: str | Path,
        host: str,
        patience: float = PATIENCE,
        longest: float = LONGEST,
        log: Log | None = None,
        changed: Callable[[tuple[str, ...]], None] = lambda _: None,
        memory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ) -> None:
        if not parties:
            raise BadInput(
                "A federation needs at least one party.", remedy="Add members with data to the federation's papers."
            )
        self.parties = tuple(parties)
        self._patience = patience
        self._longest = longest
        self._clock = clock
        self._log = log or Log(None, "coordinator", "coordinator")
        self._changed = changed
        self._certificates = KnownCertificates(memory, calendar, self._log)
        self._session = os.urandom(16)  # public: it only tells one process of a coordinator from the next
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._lock = threading.Lock()
        self._pools = {party: ThreadPoolExecutor(AT_ONCE, thread_name_prefix="colonnade") for party in self.parties}
        self._kit = Kit(Path(kit), "server", calendar)
        self._line = Line(
            COORDINATOR_CELL,
            address,
            self._kit,
            host=host,
            receive=self._receive,
            refused=lambda word: self._log.event("message-refused", reason=word),
            gone=self._gone,
            came=self._came,
        )
        self._certificates.learn(COORDINATOR, self._kit.certificates()["server.crt"])
        self._ended = threading.Event()
        threading.Thread(target=self._watch_kit, name="colonnade-kit", daemon=True).start()

    def exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Deliver one round."""
        if not set(requests) <= set(self.parties):
            raise BadInput(
                "A request is addressed to a party that is not in the federation.",
                remedy="Use a plan that this federation made.",
            )
        if any(len(data) > LARGEST_FRAME for data in requests.values()):
            raise BadInput("A message is too large to send.", remedy="Use fewer columns, or split the study.")
        futures = {party: self._pools[party].submit(self._deliver, party, data) for party, data in requests.items()}
        outcomes = {party: future.exception() for party, future in futures.items()}  # all of them, then the first fault
        for error in outcomes.values():
            if error is not None:
                raise error
        return {party: future.result() for party, future in futures.items()}

    def connected(self) -> tuple[str, ...]:
        """Return the parties whose relays are connected."""
        return tuple(party for party in self.parties if self._line.connected(party))

    def close(self) -> None:
        """Hang up."""
        self._ended.set()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._line.close()
        self._changed(())

    # One message to one party -------------------------------------------------------------------------------------------

    def _deliver(self, party: str, data: bytes) -> bytes:
        """Send a message until it is answered, with the same bytes each time."""
        letter = _Letter(party, memoryview(data), self._clock())
        for _ in range(ATTEMPTS):
            letter.number, letter.reached = next(self._numbers), False
            while not letter.reached:
                try:
                    return self._attempt(letter)
                except _Away:
                    if self._clock() - letter.seen > self._patience:
                        raise self._absence(party) from None
                letter.number = next(self._numbers)
                time.sleep(PAUSE)
        raise self._absence(party)

    def _absence(self, party: str) -> ColonnadeError:
        self._log.event("guard-away", party=party)
        if not self._line.connected(party):
            for name in (COORDINATOR, party):
                expired = self._certificates.expired(name)
                if expired is not None:
                    return expired
        return PartyAway(f"Party {party!r} is not there, or its guard does not answer.")

    def _watch_kit(self) -> None:
        """Take over a new certificate of our own as soon as the whole of it is there."""
        taken = seen = self._kit.mark()
        while not self._ended.wait(KIT_SECONDS):
            settled, seen = self._kit.mark() == seen, self._kit.mark()
            if seen == taken or not settled:
                continue
            taken = seen
            try:
                self._kit.credentials()
                self._line.renew()
            except (ColonnadeError, OSError) as error:  # what is there is not ours, or is over: the old one serves
                self._log.event("certificate-refused", code=getattr(error, "code", "bad-input"))
                continue
            self._certificates.learn(COORDINATOR, self._kit.certificates()["server.crt"])
            self._log.event("certificate-renewed")

    def _attempt(self, letter: "_Letter") -> bytes:
        answer = None
        for offset in range(0, max(len(letter.data), 1), BLOCK):
            answer = self._until_done(letter, Verb.PUT, offset, letter.data[offset : offset + BLOCK])
        assert answer is not None  # there is one block at least
        return self._fetch(letter, answer)

    def _fetch(self, letter: "_Letter", first: BlockAnswer) -> bytes:
        total, blocks, held = first.total, [first.data], len(first.data)
        if not 0 < total <= LARGEST_FRAME or first.offset != 0:
            raise ProtocolError(f"Party {letter.party!r} answered with a reply of an impossible size.")
        while held < total:
            answer = self._until_done(letter, Verb.GET, held)
            if answer.total != total or answer.offset != held:
                raise ProtocolError(f"Party {letter.party!r} answered with another block than was asked for.")
            blocks.append(answer.data)
            held += len(answer.data)
        return b"".join(blocks)

    def _until_done(self, letter: "_Letter", verb: Verb, offset: int, block: memoryview | bytes = b"") -> BlockAnswer:
        """Repeat one call while the guard is at work; a relay that says so is there."""
        last = verb == Verb.PUT and offset + len(block) == len(letter.data)
        wanted = Status.MORE if verb == Verb.PUT and not last else Status.DATA
        give_up = self._clock() + self._longest
        while self._clock() < give_up:
            answer = self._call(letter, verb, offset, block)
            if answer.status == Status.REFUSED:
                raise ProtocolError(f"The relay of party {letter.party!r} does not pass this message on.")
            if answer.status not in (wanted, Status.WAIT):
                raise _Away
            letter.seen, letter.reached = self._clock(), True
            if answer.status == wanted:
                return answer
        raise ProtocolError(f"Party {letter.party!r} has been at work on one answer for too long.")

    def _call(self, letter: "_Letter", verb: Verb, offset: int, block: memoryview | bytes) -> BlockAnswer:
        number, waiting = next(self._numbers), _Waiting(letter.party)
        with self._lock:
            self._waiting[number] = waiting
        try:
            call = BlockCall(number, verb, self._session, letter.number, len(letter.data), offset, block)
            left = letter.seen + self._patience - self._clock()
            if not self._line.send(letter.party, call.encode()) or not waiting.arrived.wait(_between(left)):
                raise _Away
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if waiting.answer is None:
            raise _Away
        return waiting.answer

    # What comes in ------------------------------------------------------------------------------------------------------

    def _receive(self, sender: str, data: memoryview) -> None:
        try:
            answer = BlockAnswer.decode(data)
        except ProtocolError:
            self._log.event("block-refused", party=sender if sender in self.parties else None)
            return
        with self._lock:
            waiting = self._waiting.get(answer.number)
        if waiting is not None and waiting.party == sender:  # nobody answers for another
            waiting.answer = answer
            waiting.arrived.set()

    def _came(self, name: str) -> None:
        self._log.event("connected", party=name if name in self.parties else None)
        found = self._line.certificate_of(name) if name in self.parties else None
        if found is not None:
            self._certificates.learn(name, found)
        self._changed(self.connected())

    def _gone(self, name: str) -> None:
        """Let nobody wait for an answer on a connection that has ended."""
        self._log.event("disconnected", party=name if name in self.parties else None)
        self._changed(self.connected())
        with self._lock:
            calls = [waiting for waiting in self._waiting.values() if waiting.party == name]
        for waiting in calls:
            waiting.arrived.set()


def _between(left: float) -> float:
    """How long to wait for one answer: not beyond our patience, but never so short that nobody could answer."""
    return max(1.0, min(left, BLOCK_SECONDS))
