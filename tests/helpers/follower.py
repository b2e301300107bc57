"""Follow a tutorial of docs/ as it stands: files are written, commands run, and what is shown must be printed."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack
from pathlib import Path

from docs_blocks import FENCED
from gateway_service import gateway
from support import COPIER, ROOT, VENV, Project, run, serve, succeed
from sybil import Document

URL, GATEWAY = "http://127.0.0.1:8000", "http://127.0.0.1:8080"
ADDRESS = "gh:org/triton-ensemble-template"
# What needs an engine or a cluster: tests/docker and tests/cluster run it.
ELSEWHERE = re.compile(r"make (image|up|down)|TRITON_URL=|docker |kubectl (?!kustomize)")
OURS = {
    r"^uvx copier": str(COPIER),
    r"^uvx --from ('[^']+'|\S+)\s+triton-ensemble": f"{VENV}/bin/triton-ensemble",
    r"(?<!/)\.venv/bin/": f"{VENV}/bin/",
    r"^kubectl": f"{VENV}/bin/kubectl",
}


class Follower:
    """In which folder somebody is, what the last commands printed, and the address of what they serve."""

    def __init__(self, folder: Path, template: Path) -> None:
        self.folder, self.template = folder, template
        self.printed, self.url, self.gateway = "", URL, GATEWAY
        self.served = ExitStack()

    def follow(self, page: str) -> None:
        with self.served:
            self.do_blocks(page)

    def do_blocks(self, page: str) -> None:
        for block in FENCED(Document((ROOT / f"docs/{page}.md").read_text(), page)):
            language, text = block.lexemes["language"], block.lexemes["source"]
            if language == "sh":
                self.printed = "".join(map(self.do, text.replace("\\\n", "").splitlines()))
            elif path := re.match(r"# (\S+\.\w+)\n", text):
                (self.folder / path[1]).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / path[1]).write_text(text[path.end() :].replace(URL, self.url))
            elif language == "text":
                for line in text.splitlines():
                    assert line in self.printed, f"{page}: {line}\n{self.printed}"

    def do(self, line: str) -> str:
        """Run a command as it stands, with the packages and the template of this repository."""
        command = line.partition("  #")[0].strip()
        if ELSEWHERE.match(command):
            return ""
        if command == "make serve":
            self.url = self.served.enter_context(serve(Project(self.folder))).urls["http"]
            return ""
        if command == "make gateway":  # before the Triton that is there
            service = self.served.enter_context(gateway(Project(self.folder), self.url))
            self.gateway = f"http://127.0.0.1:{service.port}"
            return ""
        if command.startswith("cd "):
            self.folder = (self.folder / command[3:]).resolve()
            return ""
        for written, ours in OURS.items():
            command = re.sub(written, ours, command)
        command = command.replace(ADDRESS, str(self.template)).replace(GATEWAY, self.gateway)
        if command.startswith("make "):
            made = shlex.split(command.removeprefix("make "))
            command = shlex.join(Project(self.folder).make_command(*made))
        shell = f"set -o pipefail; {command}"
        here = {} if command.startswith("make ") else {"TRITON_URL": self.url}
        done = run("bash", "-c", shell, cwd=self.folder, PYTHONPATH=f"src:{ROOT / 'src'}", **here)
        return succeed(done) + done.stderr
