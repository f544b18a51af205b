"""What a language model may compute in."""

from typing import Literal

Precision = Literal["float32", "bfloat16", "float16"]
BYTES_A_NUMBER: dict[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
