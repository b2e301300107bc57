# Yours: written once, never touched by `make update`.
"""More routes of the gateway, beside /predict.

A route that takes `pipeline: Pipeline` calls the models by `await pipeline(INPUT=rows)`, and asks for the API key. Others
ask for it by `dependencies=[Key]`. Both names are in triton_ensemble.gateway.
"""

from fastapi import APIRouter

router = APIRouter()
