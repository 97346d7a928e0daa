"""A data party's part in a histogram of scores: a joint opening, and numbers given to left and right before it."""

from colonnade.party.steps.joint_part import JointPart
from colonnade.party.steps.score_table import ScoreHistogram

__all__ = ["ScorePart"]


class ScorePart(JointPart):
    """A data party's part: givers pay and give; left and right take what they were given, pay and share."""

    _statistic: ScoreHistogram

    def give(self) -> tuple[bytes, bytes]:
        """Pay, durably, and return everybody's number in two parts; the coins are new in every run, and never kept."""
        self.begin()
        return self._statistic.give(self._gate.table, self._gate.randomness)

    def receive(self, giver: str, part: memoryview) -> None:  # noqa: ARG002  # all givers count alike
        """Take one giver's part."""
        self._statistic.receive(part, self._gate.table.people)
