"""The kinds of images that a project may have: the image of Triton, and the images of extras."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from triton_ensemble import catalog


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

    @property
    def built_as(self) -> str:
        """The variable of the image whose Dockerfile makes this one."""
        return "IMAGE" if self.file == SERVER.file else self.variable

    @property
    def is_used(self) -> bool:
        """Whether the project in the current folder has it without being asked for it."""
        has_extra = not self.extra or Path(catalog.table("extras")[self.extra]["paths"][0]).exists()
        return has_extra and not self.optional


SERVER = Image("IMAGE")
# By variable; if two extras have the same image, the row of the last counts.
IMAGES = {SERVER.variable: SERVER} | {
    variable: Image(variable, extra=extra, **image)
    for extra, row in catalog.table("extras").items()
    for variable, image in row.get("images", {}).items()
}
