"""Runs a Redis server: ``serve_redis.py SERVER APPENDONLY APPENDFSYNC PATH``, until stdin ends."""

import socket
import subprocess
import sys

server, appendonly, appendfsync, path = sys.argv[1:]
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", path]
settings = ["--save", "", "--appendonly", appendonly, "--appendfsync", appendfsync]
process = subprocess.Popen([server, *place, *settings], stdout=subprocess.PIPE, text=True)
try:
    if any("eady to accept connections" in line for line in process.stdout):
        print(f"redis://127.0.0.1:{port}/0", flush=True)
        sys.stdin.read()
finally:
    process.terminate()
    process.wait()
