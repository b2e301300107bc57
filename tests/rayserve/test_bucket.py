"""Models from a bucket, by the image's Triton: what changes more often than the image."""

from __future__ import annotations

import bucket
from rayserve.cluster import QUICK, cluster, processes, statuses, waiting, wrong
from rayserve.image import image
from support import Generate, Project, succeed


def test_each_replica_loads_the_version_that_is_named(generate: Generate) -> None:
    project = waiting(generate)
    with bucket.store() as s3, image(project.path) as built:
        to = f"s3://{s3.url}/models/waiting"
        succeed(project.make("push", f"TO={to}", **s3.keys))
        models = {"MODEL_REPOSITORY": f"{to}/1", **s3.keys}
        s3.requests.clear()
        with cluster(Project(built.opt), 2, **(built.variables | models)) as service:
            service.deploy(2, **QUICK)
            answers = service.load(100, 8, 5)
            assert (statuses(answers), wrong(answers, 5)) == ({200: 100}, [])
            assert len(processes(answers)) == 2
        assert s3.requests.count("GET /models/waiting/1/wait/config.pbtxt") >= 2
