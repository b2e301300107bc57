"""The commands and images of extras, and the parts of an environment that they need. Written by scripts/lists.py."""

# fmt: off
from __future__ import annotations

from typing import Any

COMMANDS: dict[str, dict[str, Any]] = {'gateway': {'module': 'gateway.command',
             'summary': 'run the REST gateway before Triton, for JSON and files',
             'target': {'Serve and ask': 'run the REST gateway before Triton at GATEWAY_PORT (8080), until Ctrl-C; '
                                         'WORKERS=4'},
             'part': 'gateway',
             'completes': True,
             'spawns': True,
             'shell': {'GATEWAY_PORT': '--port', 'WORKERS': '--workers'}},
 'record': {'target': {'Serve and ask': 'run the same gateway, and record requests in recordings/, for `make samples` '
                                        'and `make replay`; TRITON_RECORD=folder, TRITON_RECORD_RATE=0.01'},
            'words': ['gateway', '--record'],
            'part': 'gateway',
            'completes': True,
            'spawns': True,
            'shell': {'GATEWAY_PORT': '--port', 'WORKERS': '--workers'}},
 'gateway-image': {'module': 'serve.container.images',
                   'summary': "build the gateway's image",
                   'target': {'Deliver': "build the gateway's image, GATEWAY_IMAGE; PYTHON_IMAGE=..., PIP_CONF=..., "
                                         'CA_BUNDLE=...'}},
 'tir': {'module': 'deploy.tir.command',
         'summary': 'make the model endpoint of deploy/tir/endpoint.yml',
         'target': {'Deliver': 'make the endpoint of deploy/tir/endpoint.yml on TIR; PRINT=1 only prints the request'},
         'part': 'tir',
         'unless': 'PRINT',
         'completes': True,
         'make': {'PRINT': '--print!'}},
 'ray': {'module': 'deploy.ray.command',
         'summary': 'serve the project with Ray Serve, with the settings of deploy/ray',
         'target': {'Serve and ask': 'run Ray Serve on this machine at RAY_PORT (8090), until Ctrl-C; RAY_REPLICAS=2; '
                                     'RAY_ADDRESS=... uses that cluster'},
         'part': 'ray',
         'completes': True,
         'spawns': True,
         'shell': {'RAY_PORT': '--port', 'RAY_REPLICAS': '--replicas'}},
 'ray-image': {'module': 'serve.container.images',
               'summary': 'build the image of a Ray node',
               'target': {'Deliver': 'build the image of a Ray node, based on IMAGE; '
                                     'RAY_IMAGE=registry.example.com/name:1'},
               'completes': True,
               'delivers': True},
 'ray-test': {'target': {'Test': 'send the sample requests through Ray Serve, and check the answers'},
              'words': ['ray', '--test', '--port=0'],
              'part': 'ray',
              'completes': True,
              'spawns': True,
              'shell': {'RAY_REPLICAS': '--replicas'}}}
PARTS: dict[str, str] = {'gateway': 'vendor/gateway.txt', 'tir': 'deploy/tir/endpoint.yml', 'ray': 'vendor/ray.txt'}
PINNED: dict[str, list[str]] = {'tir': ['e2enetworks==1.4.9']}
IMAGES: dict[str, dict[str, Any]] = {'GATEWAY_IMAGE': {'suffix': '-gateway',
                   'file': 'deploy/gateway.Dockerfile',
                   'base': 'PYTHON_IMAGE',
                   'listed': 'deploy/kubernetes/components/gateway',
                   'extra': 'gateway',
                   'folder': 'deploy/gateway.Dockerfile'},
 'MOUNTED_IMAGE': {'suffix': '-mounted', 'models': 'mounted', 'extra': 'kserve', 'folder': 'deploy/kserve'},
 'MODELS_IMAGE': {'suffix': '-models',
                  'models': 'alone',
                  'optional': True,
                  'listed': 'deploy/kubernetes/components/image-volume',
                  'extra': 'kubernetes',
                  'folder': 'deploy/kubernetes'},
 'RAY_IMAGE': {'suffix': '-ray',
               'file': 'deploy/ray/Dockerfile',
               'base': 'IMAGE',
               'listed': 'deploy/ray/service.yaml',
               'extra': 'ray',
               'folder': 'deploy/ray'}}
