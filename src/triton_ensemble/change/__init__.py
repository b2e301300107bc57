"""Changes a project's files, all or none: a changed pipeline.yml, and a new version of the template."""


class ApplyError(Exception):
    """Raised if pipeline.yml can't be applied: where, what, what to do, one problem a line."""
