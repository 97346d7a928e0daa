"""The methods that estimators offer: one object for each, with its own options, guarantee, plan, expectation and learning."""
