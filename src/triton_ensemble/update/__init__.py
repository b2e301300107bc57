"""Keeps a project current: its environment, `make update`, and edits of files that go."""
