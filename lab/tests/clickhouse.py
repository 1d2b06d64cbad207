"""ClickHouse's engine (chdb) behind the part of its HTTP interface that clients use.

The server has no package that can be installed everywhere, but chdb is the same engine as a Python library. Only
the transport is replaced.
"""

import contextlib
import http.server
import tempfile
import threading
import urllib.parse

import pytest


@contextlib.contextmanager
def serve():
    """Serves an empty database on a port of this machine."""
    session = pytest.importorskip("chdb.session", reason="chdb is not installed").Session()
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            url = urllib.parse.urlsplit(self.path)
            given = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            self.answer(given, body)

        def do_GET(self):
            self.answer({}, b"SELECT 1")

        def answer(self, given, body):
            with lock:
                status, content = execute(session, given, body)
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.send_header("x-clickhouse-format", "Native")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        session.close()


def execute(session, given, body):
    """Runs a statement. The library has no separate input, so inserted rows are passed in a file."""
    session.query(f"USE {given.get('database', 'default')}")
    statement, _, form = given.get("query", "").rpartition(" FORMAT ")
    try:
        if statement.startswith("INSERT"):
            with tempfile.NamedTemporaryFile() as file:
                file.write(body)
                file.flush()
                session.query(f"{statement} SELECT * FROM file('{file.name}', {form})")
            return 200, b""
        return 200, session.query(given.get("query") or body.decode(), given.get("default_format", "TabSeparated")).bytes()
    except Exception as error:
        return 500, str(error).encode()
