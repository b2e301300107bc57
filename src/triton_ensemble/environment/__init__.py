"""Makes and renews a project's environment: its locks, and what follows an install."""
