"""Says how the projects of a team stand: versions, edits, known faults."""
