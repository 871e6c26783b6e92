"""Makes a database on the PostgreSQL server at the URL that is named, in place of earlier ones."""

import sys

import psycopg

with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname ~ '^bench'"):
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    connection.execute(f"CREATE DATABASE {sys.argv[2]}")
