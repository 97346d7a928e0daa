"""One method per class, with the paper it comes from and what differs."""
