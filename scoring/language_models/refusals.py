"""Why a model cannot be entered or loaded."""


class ModelRefused(ValueError):
    """The reference, or the model behind it, is refused. The message says what was given, why, and the remedy."""


class RevisionChanged(ModelRefused):
    """The files are not those that were pinned."""


class HubUnavailable(ConnectionError):
    """The hub did not answer as a hub: a passing fault, not a refusal."""
