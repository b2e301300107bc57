"""The process that starts the gateway's workers: what it imports, and what it says where packages are missing."""

from __future__ import annotations

import subprocess
import sys

from support import Generate, Project, succeed


def python(project: Project, code: str) -> subprocess.CompletedProcess[str]:
    return project.run(sys.executable, "-c", f"import sys; {code}")


def test_it_imports_nothing_that_only_its_workers_need(default_project: Project) -> None:
    code = "import triton_ensemble.gateway.command; print('fastapi' in sys.modules)"
    assert succeed(python(default_project, code)) == "False\n"


def test_packages_that_are_missing_are_one_line(generate: Generate) -> None:
    missing = "sys.modules |= {'fastapi': None, 'uvicorn': None}"
    code = f"{missing}; from triton_ensemble.cli import main; sys.exit(main(['gateway']))"
    process = python(generate(extras=["gateway"]), code)
    assert process.returncode == 2
    assert process.stderr == "the gateway needs uvicorn; run: make gateway\n"
