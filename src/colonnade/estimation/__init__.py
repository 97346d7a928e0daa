"""Pure post-processing: opened numbers in, estimates out. No parties, no plans, no input or output."""
