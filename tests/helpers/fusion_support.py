"""Shared by tests: which steps share a model, and why others do not."""

from __future__ import annotations

from support import step

CHAIN = [step("a", ["A"], ["M"]), step("b", ["M"], ["N"]), step("c", ["N"], ["X"])]
