"""One training iteration of a transformer, as nodes of every rank."""
