"""Prints the commands of a project, in groups, by the standard library alone: it needs no environment."""

from __future__ import annotations

import re
from pathlib import Path

from triton_ensemble.environment.extras import COMMANDS

# Each target of the Makefile, with the variables that it takes.
GROUPS = {
    "Serve and ask": {
        "infer": "send the sample requests and print the responses",
        "serve": "run Triton in the foreground, until Ctrl-C; RELOAD=1 reloads what you change in steps/ and models/; CONTROL=explicit: see shift",
        "sample": 'record a request in samples/: ARGS="INPUT=@cat.jpg" or ARGS="INPUT=VALUE"; NAME=cat, OUTPUTS=1, REQUEST=body.json',
        "step": "run one Python step in the foreground; NAME=decode; SAMPLE=cat takes samples/cat.json; DEBUG=1 runs it in pdb",
    },
    "Change": {
        "add-step": "ask for one more step of the pipeline, and write it into pipeline.yml",
        "apply": "apply pipeline.yml to the managed files (other commands do so first); UNDO=1 undoes it; ARGS=--check only says whether it is applied",
        "update": "upgrade to the template's newest version; UNDO=1 undoes it; MARKERS=1 marks conflicts in the files; ARGS=--vcs-ref=v1.2.0 chooses another version",
        "lock": "renew the lock files",
        "setup": "make the environment (other commands do so first)",
        "repository": "complete model_repository/: copy step code, make missing model files",
    },
    "Test": {
        "check": "find what Triton would refuse, without a server; FORMAT=github or json",
        "test": "run linters, the check, unit and contract tests, and tests on a running Triton; STRICT=1 fails if stubs are left",
        "golden": "record the responses to the sample requests in tests/golden.json, for make test",
        "samples": "turn recorded requests into samples, and their responses into golden ones: FROM=recordings, N=20",
        "replay": "send recorded requests to another server, and print what differs: AGAINST=http://host:8000; FROM=recordings, ARGS=--all",
        "lint": "run ruff and mypy",
        "format": "format the code as `make lint` expects it",
        "test-docker": "run the smoke tests on the container, and test what happens when a part of it dies",
    },
    "Measure": {
        "bench": "measure throughput, latency and time by model under growing load; BASE=old.json compares",
        "tune": "measure settings for TIME seconds, and write the best into pipeline.yml; P99=ms limits the latency",
        "sizes": "print the memory and disk that a pod needs for the model files, and what deploy/ gives it",
    },
    "Versions of a step": {
        "publish": "freeze a step's code and model file as a version: NAME=classify VERSION=2; FROM=commit, FILE=model file",
        "shift": "test a published version, and move the ensemble to it: NAME=classify VERSION=2; GOLDEN=1 accepts its responses as the right ones; ROLL=command",
        "rollback": "move the ensemble back to the version before the last shift; NAME=classify",
        "unload": "remove a version from pipeline.yml and from a running server: NAME=classify VERSION=1",
    },
    "Deliver": {
        "image": "build the container image; TRITON_IMAGE=..., MODELS=mounted or alone, PIP_CONF=..., CA_BUNDLE=...",
        "up": "start the containers by compose, until `make down`; TRITON_PORTS=1 publishes Triton's ports beside the gateway's",
        "down": "stop the containers, and keep the image and Prometheus' data; ARGS=--volumes removes the data",
        "engines": "build the TensorRT engines of changed model.onnx files on this machine's GPUs; TRITON_IMAGE=...",
        "push": "upload the model repository as a new version: TO=s3://bucket/prefix; VERSION=7",
        "digests": "pin the images by digest, in deploy/images.lock",
        "promote": "give a stage the images of another, by digest: TO=prod FROM=staging; without FROM those of `make pin`",
        "pin": "write images by their digests into deploy/*/kustomization.yaml: IMAGE=NAME@sha256:..., and others that CI builds",
    },
}
for name, row in COMMANDS.items():
    for group, words in row["target"].items():
        GROUPS[group][name] = words


def print_help() -> int:
    """Print the targets that the Makefile of the current folder has, or all if it is not there."""
    makefile = Path("Makefile")
    found = (
        re.findall(r"^([a-z-]+):", makefile.read_text(encoding="utf-8"), re.M)
        if makefile.exists()
        else []
    )
    for group, targets in GROUPS.items():
        if lines := [
            f"  make {n:13} {text}" for n, text in targets.items() if n in found or not found
        ]:
            print(f"{group}:", *lines, sep="\n")
    return 0
