"""Build the images and start the containers by compose, and print their addresses. `down` stops them.

The command waits until everything that it starts is ready, and prints a line for each container that is not.
deploy/compose.override.yaml has your own settings. Beside the variables of `image` and `gateway-image`, these
in the environment or on make's command line count:

  HTTP_PORT, GRPC_PORT, METRICS_PORT     Triton's ports; 0 takes a free one
  GATEWAY_PORT, WORKERS, GATEWAY_MEMORY  port, processes and memory of the gateway
  PROMETHEUS_PORT, GRAFANA_PORT          ports of the monitoring
  TRITON_PORTS=1                         publishes Triton's ports beside the gateway's
  COMPOSE_PROFILES                       monitoring (default), or empty: without Prometheus and Grafana
  PROMETHEUS_IMAGE, GRAFANA_IMAGE        their images
  GPUS=0                                 no GPU, for models that can run without
  MODELS=mounted                         mounts model_repository/
  MEMORY, PIDS, TMP_SIZE, SHM_SIZE       limits of Triton's container
  ADMIN_KEY_FILE, GATEWAY_API_KEYS_FILE, GRAFANA_PASSWORD_FILE  files with keys and a password
  COMPOSE_PROJECT_NAME                   default: the project's, with a number of this folder
  COMPOSE                                the program; default: docker compose, or docker-compose
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from triton_ensemble.facts.project import Project
from triton_ensemble.serve.container.compose import list_addresses, read_ports, start_services
from triton_ensemble.serve.container.images import build, build_with_models
from triton_ensemble.serve.container.settings import Settings


def run(arguments: argparse.Namespace) -> int:
    """Build the images and start the containers, and return the exit status.

    Raise ContainerError with a line for each container that does not run.
    """
    settings = Settings.read(Project.load(Path.cwd()))
    os.environ.update(settings.variables)
    read_ports(settings)  # before images are built
    status = build_with_models(settings)
    if not status and settings.has_gateway:
        status = build(settings, "GATEWAY_IMAGE")
    if not status:
        triton = start_services(settings.compose)
        print(*list_addresses(settings, triton), sep="\n")
    return status
