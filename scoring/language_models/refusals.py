"""Why a model cannot be entered or loaded."""

from scoring.refusals import Refused


class ModelRefused(Refused):
    """The reference, or the model behind it, is refused. The message says what was given, why, and the remedy."""


class RevisionChanged(ModelRefused):
    """The files are not those that were pinned."""


class NotOnHub(ModelRefused):
    """The hub has no such model, or shows it to nobody."""


class NoSuchRevision(ModelRefused):
    """The hub has the model, at other revisions."""


class Gated(ModelRefused):
    """The hub shows the model to those that its owner let in."""


class NotFinite(ModelRefused):
    """The model gives some texts no finite likelihood."""


class FailedSelfTest(ModelRefused):
    """The engine does not compute the model as the model itself does."""


class HubUnavailable(ConnectionError):
    """The hub did not answer as a hub: a passing fault, not a refusal."""


class HubBusy(HubUnavailable):
    """The hub asks to be left alone for so many seconds."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds
