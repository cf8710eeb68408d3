"""Image ids in the paths of requests."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class ImageIdConvertor(Convertor[str]):
    """An image id in a path: names of files contain slashes, and may contain line feeds."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """The id, as it is."""
        return value

    def to_string(self, value: str) -> str:
        """The id, as it is."""
        return value


register_url_convertor("image_id", ImageIdConvertor())
IMAGE = "/{image_id:image_id}"  # of a path, below /v1/images
