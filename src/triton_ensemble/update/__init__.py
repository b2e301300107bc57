"""Keeps a project current: its environment, `make update`, and what became of edits whose file is gone."""
