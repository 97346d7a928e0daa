"""One class for each kind of step: its terms, its law, what it opens to whom, its traffic and its words."""

from colonnade.steps import registry as registry  # every kind is known once any of them is used
