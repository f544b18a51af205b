"""What a language model may compute in."""

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16"]
