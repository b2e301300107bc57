# Managed by triton-ensemble-template: edits are merged by `make update`.
"""Call the ensemble from a shell: `python -m PACKAGE infer --help` lists its inputs."""

import sys

try:
    from triton_ensemble.testing.shell import main
except ModuleNotFoundError as error:
    sys.exit(f"{error}; this command needs the project's toolkit: pip install vendor/*.whl")

main(__package__)
