"""A page of one's own, http://127.0.0.1:9000, that speaks with the server under a short-lived key.

The API key stays in this program, and so does the say about what the model is told. Beside it:
    LOOKHEAR_API_KEY=secret lookhear serve --model demo-qwen3-vl --allow-origin http://127.0.0.1:9000
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from openai import OpenAI

API_KEY = os.environ.get("LOOKHEAR_API_KEY", "secret")
client = OpenAI(api_key=API_KEY, base_url="http://127.0.0.1:8000/v1")
PAGE = Path(__file__).with_name("browser_key.html")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/key":
            secret = client.realtime.client_secrets.create(
                expires_after={"anchor": "created_at", "seconds": 60},
                session={"type": "realtime", "instructions": "Answer about pictures only."},
            )
            kind, body = "application/json", secret.to_json().encode()
        else:
            kind, body = "text/html", PAGE.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", 9000), Handler).serve_forever()
