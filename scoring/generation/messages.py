"""The messages that ask a chat model to continue a text."""

from scoring.generation.protocols import ChatSettings

SYSTEM, USER = "system", "user"
# Where the system prompt stands: in a message of its own, or, where a template knows no system role, before the
# instruction.
SYSTEM_ROLES = (SYSTEM, USER)
Messages = list[dict[str, str]]


def messages_of(text: str, settings: ChatSettings, system_role: str = SYSTEM) -> Messages:
    """The messages that ask to continue `text`."""
    request = f"{settings.instruction}\n\n{text}"
    if system_role == USER:
        return [{"role": USER, "content": f"{settings.system_prompt}\n\n{request}"}]
    return [{"role": SYSTEM, "content": settings.system_prompt}, {"role": USER, "content": request}]
