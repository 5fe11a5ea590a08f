#!/usr/bin/env python3
"""A web server for the tests of http handlers. Usage: http_server.py DIRECTORY

Prints its port, and that of the same with TLS and a certificate that no one has signed. Each request is a line of JSON
in DIRECTORY/requests before it is answered. What is answered depends on the path.
"""
import email.utils
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

directory = sys.argv[1]
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, code, body=b"", kind=None, headers=()):
        self.send_response(code)
        if kind:
            self.send_header("Content-Type", kind)
        for name, value in headers:
            self.send_header(name, value)
        if code not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        line = {
            "path": self.path,
            "connection": self.client_address[1],
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "body": body.decode("latin-1"),
        }
        with lock, open(directory + "/requests", "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        getattr(self, "do_" + url.path.strip("/"))(query)

    def do_answer(self, query):
        headers = [("Location", "/answer?code=200")] if "location" in query else []
        if "after" in query:
            headers.append(("Retry-After", query["after"]))
        if "date" in query:
            when = email.utils.formatdate(time.time() + int(query["date"]), usegmt=True)
            headers.append(("Retry-After", when))
        body = query.get("body", "").encode()
        self.answer(int(query.get("code", "200")), body, query.get("type"), headers)

    def do_echo(self, query):
        secret = self.headers["Authorization"]
        text = json.dumps({"error": "bad token " + secret}) if "json" in query else "bad token " + secret
        self.answer(401, text.encode(), "application/json" if "json" in query else "text/plain")

    def do_hold(self, query):
        end = time.monotonic() + 60
        while not os.path.exists(directory + "/release") and time.monotonic() < end:
            time.sleep(0.02)
        self.answer(200)

    def do_cut(self, query):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")
        self.wfile.flush()
        self.connection.close()
        self.close_connection = True

    def do_huge(self, query):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = b"%x\r\n" % 65536 + b"x" * 65536 + b"\r\n"
        try:
            for _ in range(160):
                self.wfile.write(piece)
        except OSError:
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


def make_certificate():
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "1",
         "-keyout", directory + "/key.pem", "-out", directory + "/cert.pem"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory + "/cert.pem", directory + "/key.pem")
    return context


plain = Server(("127.0.0.1", 0), Handler)
secure = Server(("127.0.0.1", 0), Handler)
secure.socket = make_certificate().wrap_socket(secure.socket, server_side=True)
threading.Thread(target=secure.serve_forever, daemon=True).start()
print(plain.server_address[1], secure.server_address[1], flush=True)
plain.serve_forever()
