"""A tensor of a model, as its file declares it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tensor:
    """A tensor by the model's own name; type and dims are None where the file does not have them."""

    name: str
    type: str | None = None  # Triton's, as FP32
    dims: list[int] | None = None  # -1 for one that varies

    @property
    def spec(self) -> str:
        """TYPE[dims], or empty where it is not known."""
        return "" if self.type is None or self.dims is None else f"{self.type}{self.dims}"
