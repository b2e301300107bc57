"""The running server, after a change of versions: what it has to load, and whether it serves it then."""

from __future__ import annotations

from collections.abc import Iterable

from triton_ensemble.project import Project
from triton_ensemble.versions.pipeline import Pipeline
from triton_ensemble.versions.running import Running


def move(pipeline: Pipeline, name: str, changes: Iterable[str]) -> str:
    """Let the server load what has changed; return a line on what became of it. VersionError where it does not."""
    graph = pipeline.answered["graph"]
    ensembles = [each["name"] for each in reversed(graph["ensembles"])]  # those inside come first
    changed = {path.split("/")[1] for path in changes if path.startswith("model_repository/")}
    callers = sorted(changed - {name} - {*ensembles})
    cached = [e["name"] for e in graph["ensembles"] if "response_cache" in e["settings"]]
    if cached:
        return f"{', '.join(cached)}: has a cache, which would go on with old answers; start the server anew"

    def holds(server: Running) -> bool:
        asked, loaded = server.asked(ensembles, name), server.versions(name)
        return asked <= pipeline.asked(name) | {-1} and loaded == {*pipeline.versions(name)}

    project = Project.load(pipeline.root)
    return Running(project).load([name, *callers, *(e for e in ensembles if e in changed)], holds)
