"""Changes a project's files, all or none: a changed pipeline.yml, and a new version of the template."""


class ChangeError(Exception):
    """Raised if a project's files can't be changed.

    Each problem is a line with the place, what is wrong and what to do.
    """
