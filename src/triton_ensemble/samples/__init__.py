"""Sample requests of a project: read, sent, and their answers recorded and compared."""
