"""Work on what strangers send, in a process of its own that was shut in first: texts in, arrays out.

    from scoring.cage import Limits, open_model

    with open_model(folder, "org/name", "float32", Limits()) as model:
        table = model.likelihoods(ids, texts, LikelihoodSettings())

Configurations, tokenizers, weights and uploaded files are parsed by libraries that were not written for enemies. So
the process that reads them has no network, no credentials, no files but the model's and the libraries', a folder to
write to that is gone afterwards, and limits of time and memory; each where the host has it (`protections.py` tries them
out, every time). What comes back is checked like any stranger's file (`pipe.py`).

    supervisor.py    starts, asks and ends cages, on the side of the secrets
    zygote.py        has the libraries imported, and is forked for each cage
    confinement.py, landlock.py    shut a process in
    work.py          what is done inside
    models.py, files.py            the same, asked for from outside
"""

from scoring.cage.files import FileReader, open_file
from scoring.cage.limits import (
    LOOK_UP,
    CageBroken,
    CageDied,
    CageError,
    CageLimits,
    CageOutOfMemory,
    CageTimeout,
    CageUnavailable,
)
from scoring.cage.models import CagedModel, open_model, open_reader
from scoring.cage.protections import Protection
from scoring.cage.supervisor import NURSERY, WorkRefused, open_cage

__all__ = [
    "LOOK_UP",
    "NURSERY",
    "CageBroken",
    "CageDied",
    "CageError",
    "CageLimits",
    "CageOutOfMemory",
    "CageTimeout",
    "CageUnavailable",
    "CagedModel",
    "FileReader",
    "Protection",
    "WorkRefused",
    "open_cage",
    "open_file",
    "open_model",
    "open_reader",
]
