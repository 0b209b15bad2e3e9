"""How probable it is that each label is wrong, and what follows from that."""
