"""Puts nghttpx, which speaks HTTP/2 over TLS, in front of a server of a test."""

import contextlib
import socket
import subprocess


@contextlib.contextmanager
def http2_front(port, certificates, *options):
    """The address of the server at the port, by the certificate of the folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        front = free.getsockname()[1]
    proxy = subprocess.Popen(
        ["/usr/sbin/nghttpx", "--conf=/dev/null", f"--frontend=127.0.0.1,{front}", f"--backend=127.0.0.1,{port}",
         "--workers=1", "--log-level=ERROR", *options, f"{certificates}/key.pem", f"{certificates}/chain.pem"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"https://127.0.0.1:{front}"
    finally:
        proxy.terminate()
        proxy.wait()
