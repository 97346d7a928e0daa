"""What runs where shares are: data parties, dataless nodes, and the coordinator when it is the third node."""
