"""One class for each kind of step: its terms, its law, what it opens to whom, its traffic and its words."""
