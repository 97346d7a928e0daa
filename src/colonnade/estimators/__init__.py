"""What a user holds: estimators in the shape of scikit-learn."""
