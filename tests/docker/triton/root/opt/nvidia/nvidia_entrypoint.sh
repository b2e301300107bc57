#!/bin/bash
# As NVIDIA's: says what it is, then becomes what it is told to run.
echo "== Triton, a stand-in for NVIDIA's image =="
exec "$@"
