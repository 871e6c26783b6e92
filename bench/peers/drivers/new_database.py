"""Makes a database on the PostgreSQL server at the URL that is named."""

import sys

import psycopg

with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute(f"CREATE DATABASE {sys.argv[2]}")
