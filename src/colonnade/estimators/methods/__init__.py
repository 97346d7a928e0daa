"""The methods that estimators offer: one class each, with its options, guarantee, plan, expected error and learning."""
