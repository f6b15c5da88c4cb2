"""moto's S3 server, which refuses to store anything while a file exists, as a server whose disk is full does.

python -m tests.support.s3_server PORT FILE
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

REFUSAL = (
    b'<?xml version="1.0"?><Error><Code>XMinioStorageFull</Code>'
    b"<Message>Storage backend has reached its minimum free drive threshold.</Message></Error>"
)


class Quiet(WSGIRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        return


def filling(app: Any, full: Path) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """The application, without room while `full` exists."""

    def respond(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("PUT", "POST") and full.exists():
            environ["wsgi.input"].read()
            start_response("507 Insufficient Storage", [("Content-Type", "application/xml")])
            return [REFUSAL]
        result: Iterable[bytes] = app(environ, start_response)
        return result

    return respond


if __name__ == "__main__":
    port, full = sys.argv[1:]
    application = filling(DomainDispatcherApplication(create_backend_app), Path(full))
    run_simple("127.0.0.1", int(port), application, threaded=True, request_handler=Quiet)
