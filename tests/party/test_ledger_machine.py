"""Any sequence of calls, from two handles by turns, agrees with a reference of one page."""

import itertools
import os
import tempfile
from fractions import Fraction
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from colonnade.errors import BudgetExceeded, ColonnadeError, ProtocolError, ReleaseLost
from colonnade.party.ledger.ledger import SqliteLedger
from colonnade.privacy.accounting import Budget, Loss, total
from tests.party.ledger_children import BODY, set_cap
from tests.party.ledger_samples import OTHER_BODY


class Reference:
    """The ledger as a paragraph of Python: rows in a list, totals added up afresh each time."""

    def __init__(self, budget):
        self.budget = budget
        self.rows = {}  # request -> [kind, body, loss, seed, answer]
        self.length = 1

    def holds(self, losses, budget):
        composed = total(losses)
        return composed.fits(budget.nano, budget.delta)

    @property
    def losses(self):
        return [row[2] for row in self.rows.values() if row[2] is not None]

    def append(self, kind, request, body, loss, seed):
        if request in self.rows:
            return ProtocolError
        if loss is not None and not self.holds([*self.losses, loss], self.budget):
            return BudgetExceeded
        self.rows[request] = [kind, body, loss, seed, None]
        self.length += 1
        return self.length - 1

    def keep(self, request, answer, kinds):
        if request not in self.rows or self.rows[request][0] not in kinds:
            return ProtocolError
        row = self.rows[request]
        if row[4] is not None and row[4] != answer:
            return ProtocolError
        row[3], row[4] = None, answer
        return answer

    def answer(self, request, body):
        if request not in self.rows:
            return None
        row = self.rows[request]
        if row[1] != body:
            return ProtocolError
        return ReleaseLost if row[4] is None and row[0] == "debit" else row[4]

    def set_budget(self, budget):
        if not self.holds(self.losses, budget):
            return BudgetExceeded
        self.budget = budget
        self.length += 1
        return None


LOSSES = st.one_of(
    st.integers(1, 400_000_000).map(Loss.of_pure),
    st.integers(1, 10**8).map(lambda parts: Loss.of_zcdp(Fraction(parts, 10**10))),
)
BUDGETS = st.builds(
    Budget, epsilon=st.sampled_from([1e-9, 0.05, 0.5, 1.0, 3.0]), delta=st.sampled_from([0.0, 1e-9, 1e-5])
)
BODIES = st.sampled_from([BODY, BODY, BODY, OTHER_BODY])
ANSWERS = st.sampled_from([b"", b"one", b"two", bytes(9_000)])


class LedgerMachine(RuleBasedStateMachine):
    requests = Bundle("requests")

    @initialize(budget=BUDGETS)
    def create(self, budget):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "bank.ledger"
        self.handles = [SqliteLedger.create(self.path, party="bank", budget=budget), SqliteLedger.open(self.path)]
        self.reference = Reference(budget)
        self.turn = itertools.count()

    @property
    def ledger(self):
        return self.handles[next(self.turn) % 2]  # two handles by turns: neither may rely on its own memory

    def agree(self, expected, act):
        try:
            found = act()
        except ColonnadeError as error:
            found = type(error)
        assert found == expected

    @rule(target=requests, name=st.binary(min_size=1, max_size=3))
    def name(self, name):
        return name

    @rule(request=requests, body=BODIES, loss=LOSSES)
    def debit(self, request, body, loss):
        expected = self.reference.append("debit", request, body, loss, None)
        self.agree(expected, lambda: self.ledger.debit(request, body, loss, label="x"))

    @rule(request=requests, body=BODIES, loss=LOSSES, seed=st.binary(min_size=32, max_size=32))
    def reserve(self, request, body, loss, seed):
        expected = self.reference.append("reserve", request, body, loss, seed)
        self.agree(expected, lambda: self.ledger.reserve(request, body, loss, label="x", seed=seed))

    @rule(request=requests, body=BODIES)
    def nonprivate(self, request, body):
        expected = self.reference.append("nonprivate", request, body, None, None)
        self.agree(expected, lambda: self.ledger.record_nonprivate(request, body, label="x"))

    @rule(request=requests, answer=ANSWERS)
    def seal(self, request, answer):
        expected = self.reference.keep(request, answer, ("debit", "nonprivate"))
        self.agree(expected, lambda: self.ledger.seal(request, answer))

    @rule(request=requests, answer=ANSWERS)
    def commit(self, request, answer):
        expected = self.reference.keep(request, answer, ("reserve",))
        self.agree(expected, lambda: self.ledger.commit(request, answer))

    @rule(request=requests, body=BODIES)
    def ask(self, request, body):
        self.agree(self.reference.answer(request, body), lambda: self.ledger.answer_to(request, body))
        row = self.reference.rows.get(request)
        self.agree(None if row is None else row[3], lambda: self.ledger.seed_of(request))

    @rule(budget=BUDGETS)
    def change_the_cap(self, budget):
        self.agree(self.reference.set_budget(budget), lambda: set_cap(self.ledger, budget))

    @rule(which=st.integers(0, 1))
    def reopen(self, which):
        self.handles[which].close()
        self.handles[which] = SqliteLedger.open(self.path, party="bank")

    @invariant()
    def agrees_with_the_reference(self):
        if not hasattr(self, "handles"):
            return
        ledger, reference = self.ledger, self.reference
        assert ledger.spent() == total(reference.losses)
        assert ledger.spent().fits(ledger.budget.nano, ledger.budget.delta)
        assert ledger.head().sequence == reference.length - 1
        assert ledger.budget == reference.budget
        assert ledger.remaining() >= 0

    def teardown(self):
        if hasattr(self, "handles"):
            for handle in self.handles:
                handle.verify()
                handle.close()
            self.folder.cleanup()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = hypothesis.settings(
    max_examples=300 if os.environ.get("COLONNADE_FRESH") else 25, stateful_step_count=40, deadline=None
)
