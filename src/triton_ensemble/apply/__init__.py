"""Applies a changed pipeline.yml to a project's managed files: offline, without a commit, without Copier."""


class ApplyError(Exception):
    """Raised if pipeline.yml can't be applied: where, what, what to do, one problem a line."""
