"""What a session with a server may spend: requests and tokens, counted before each request is sent."""

import threading
from dataclasses import dataclass, field

from scoring.served.transport import ServerUnavailable


@dataclass
class Allowance:
    """Requests and tokens that the threads of a session may spend together.

    A request counts before it is sent, with the most tokens that it may take; once answered, with the tokens that the
    server says it took. So no more is ever spent than `most_requests` and `most_tokens`.
    """

    most_requests: int
    most_tokens: int
    requests: int = 0
    tokens: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, tokens: int) -> None:
        """Count one request that may take so many tokens. Raises ServerUnavailable where that would be too much."""
        with self._lock:
            if self.requests >= self.most_requests or self.tokens + tokens > self.most_tokens:
                raise ServerUnavailable(
                    f"the requests were tried again so often that {self.requests:,} of {self.most_requests:,} that "
                    f"were set aside are sent, and {self.tokens:,} of {self.most_tokens:,} tokens are spent"
                )
            self.requests += 1
            self.tokens += tokens

    def settle(self, reserved_tokens: int, used_tokens: int) -> None:
        """Count the tokens that an answered request took in place of the most that it could."""
        with self._lock:
            self.tokens += used_tokens - reserved_tokens
