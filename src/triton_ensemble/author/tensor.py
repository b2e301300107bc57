"""A tensor of a model, as its file declares it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DraftTensor:
    """A tensor by the model's own name. Type and dims are None if the file does not have them."""

    name: str
    type: str | None = None  # Triton's, as FP32
    dims: list[int] | None = None  # -1 for one that varies

    def takes(self, data_type: str, dims: list[int]) -> bool:
        """Return whether the model takes, or may write, a tensor of a type and dims in its place."""
        if self.type is None or self.dims is None:
            return self.type in (None, data_type)
        return (self.type, len(self.dims)) == (data_type, len(dims)) and all(
            own in (-1, dim) for own, dim in zip(self.dims, dims, strict=True)
        )

    @property
    def spec(self) -> str:
        """TYPE[dims], or an empty text if it is not known."""
        return "" if self.type is None or self.dims is None else f"{self.type}{self.dims}"
