"""What is said between a coordinator and a party, and how it is written down."""
