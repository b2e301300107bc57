# Yours: written once, never touched by `make update`.
"""Encoded images -> their pixels."""

from io import BytesIO

from PIL import Image, ImageOps

from triton_step import InvalidRequest

MAX_PIXELS = 25_000_000  # a few kB of PNG can unpack to gigabytes


def decode(data: bytes, row: int) -> Image.Image:
    """Return the image of a JPEG or PNG file in RGB: upright by its EXIF data, on white where it is transparent.

    Raises InvalidRequest, which names the row, for anything else and for more than MAX_PIXELS.
    """
    try:
        return _flatten(ImageOps.exif_transpose(_open(data)))
    except Image.DecompressionBombError as error:
        raise InvalidRequest(
            f"IMAGE, row {row}: more than {MAX_PIXELS:,} pixels; send a smaller image"
        ) from error
    # Pillow's decoders also raise SyntaxError, ValueError, AssertionError ...
    except Exception as error:
        raise InvalidRequest(
            f"IMAGE, row {row}: its {len(data)} bytes are not a complete JPEG or PNG image; "
            "send the content of such a file, not its name or base64"
        ) from error


def _open(data: bytes) -> Image.Image:
    image = Image.open(BytesIO(data), formats=("JPEG", "PNG"))
    if image.width * image.height > MAX_PIXELS:
        raise Image.DecompressionBombError
    return image


def _flatten(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, which convert() would clip instead of scale
        image = image.point(lambda shade: shade / 256)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
