"""Uploads the model repository to a bucket: `triton-ensemble push`."""

NO_BOTO3 = "boto3 is not installed; in a project run: make push TO=s3://bucket/prefix, elsewhere: pip install boto3"


class PushError(RuntimeError):
    """Raised where the repository can't be pushed: a line for each reason, each with what to do."""
