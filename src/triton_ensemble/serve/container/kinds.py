"""The kinds of images that a project may have: the image of Triton, and the images of extras."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from triton_ensemble.environment.extras import IMAGES as OF_EXTRAS


@dataclass(frozen=True)
class Image:
    """A kind of image, as `images` of catalog/extras.yml describes it."""

    variable: str
    suffix: str = ""
    file: str = "deploy/Dockerfile"
    base: str = "TRITON_IMAGE"
    models: str = "copied"
    listed: str = ""
    optional: bool = False
    extra: str = ""
    folder: str = ""  # of the extra

    @property
    def built_as(self) -> str:
        """The variable of the image whose Dockerfile makes this one."""
        return "IMAGE" if self.file == SERVER.file else self.variable

    @property
    def is_used(self) -> bool:
        """Whether the project in the current folder has the image without being asked for it."""
        return Path(self.folder).exists() and not self.optional


SERVER = Image("IMAGE")
IMAGES = {SERVER.variable: SERVER} | {
    variable: Image(variable, **image) for variable, image in OF_EXTRAS.items()
}
