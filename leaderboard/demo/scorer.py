"""A scorer behind a URL that is retrained while the URL stays the same, as such services are."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, TypeVar

from scoring.evaluation_sets import build_starter

ATTRIBUTE_WEIGHTS = {"TOXICITY": 1.0, "SEVERE_TOXICITY": 0.4}  # of the one probability it has; others get 0.7


class RetrainedScorer:
    """Speaks Perspective's protocol; its model is a logistic regression on the starter set."""

    def __init__(self) -> None:
        self.address = ""
        self.train(strength=1.0)

    def train(self, strength: float) -> None:
        """Fit the model anew; `strength` is the inverse of regularisation."""
        # Imported here, as commands are listed on hosts that have no engine.
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        sentences = build_starter()
        model = make_pipeline(
            TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)), LogisticRegression(C=strength, max_iter=500)
        )
        model.fit([sentence.text for sentence in sentences], [sentence.harmful for sentence in sentences])
        self._model = model

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request of one text."""
        probability = float(self._model.predict_proba([request["comment"]["text"]])[0, 1])
        scores = {
            name: {"summaryScore": {"value": probability * ATTRIBUTE_WEIGHTS.get(name, 0.7), "type": "PROBABILITY"}}
            for name in request["requestedAttributes"]
        }
        return {"attributeScores": scores}


class Answering(Protocol):
    """Something behind a URL: `answer` makes the answer to a request, both as JSON."""

    address: str

    def answer(self, request: dict[str, Any]) -> dict[str, Any]: ...


Service = TypeVar("Service", bound=Answering)


@contextmanager
def serve(service: Service) -> Iterator[Service]:
    """Answer on a free port of this machine for the time of the block; sets the service's address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.dumps(service.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the board's own lines are what there is to see."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
