# Yours: written once, never touched by `make update`.
"""More routes of the gateway, beside /predict."""

from fastapi import APIRouter

router = APIRouter()
