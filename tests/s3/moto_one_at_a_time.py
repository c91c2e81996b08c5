"""moto in server mode, one request at a time: `moto_one_at_a_time.py PORT`.

moto looks at a precondition and writes in two steps, without a lock between its threads: now and then two racing writers both win.
"""

import sys
from threading import Lock

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class OneAtATime:
    def __init__(self, application):
        self.application = application
        self.lock = Lock()

    def __call__(self, environ, start_response):
        with self.lock:
            answer = self.application(environ, start_response)
            try:
                return [b"".join(answer)]
            finally:
                if hasattr(answer, "close"):
                    answer.close()


if __name__ == "__main__":
    application = OneAtATime(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True, request_handler=MotoRequestHandler)
