"""Uploads the model repository to a bucket: `triton-ensemble push`."""

NO_BOTO3 = "boto3 is not installed; in a project run: make push TO=s3://bucket/prefix, elsewhere: pip install boto3"


class PushError(RuntimeError):
    """Raised if the repository can't be pushed. Each line has a reason and what to do about it."""
