"""The part of psycopg's interface that the recipes use, on PostgreSQL's own library: the tests need no driver."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache

_CONNECTION_OK = 0
_COMMAND_OK, _TUPLES_OK = 1, 2


class Error(Exception):
    """PostgreSQL has refused a command."""


@cache
def library():
    """The library, or None where it is not installed."""
    name = ctypes.util.find_library("pq")
    if name is None:
        return None
    found = ctypes.CDLL(name)
    for function in ("PQconnectdb", "PQexecParams"):
        getattr(found, function).restype = ctypes.c_void_p
    for function in ("PQerrorMessage", "PQresultErrorMessage", "PQcmdTuples"):
        getattr(found, function).restype = ctypes.c_char_p
    found.PQgetvalue.restype = ctypes.c_char_p
    found.PQftype.restype = ctypes.c_uint
    return found


class Cursor:
    """The rows of one command."""

    def __init__(self, rows, rowcount):
        self._rows, self.rowcount = iter(rows), rowcount

    def fetchone(self):
        return next(self._rows, None)

    def fetchall(self):
        return list(self._rows)

    def __iter__(self):
        return self._rows


_WHOLE_NUMBERS = {20, 21, 23}
"""PostgreSQL's types int8, int2 and int4."""


class Connection:
    """As psycopg's: the first command begins a transaction."""

    def __init__(self, where):
        self._open = library().PQconnectdb(where.encode())
        self._begun = False
        if library().PQstatus(ctypes.c_void_p(self._open)) != _CONNECTION_OK:
            raise Error(library().PQerrorMessage(ctypes.c_void_p(self._open)).decode())

    def execute(self, command, parameters=()):
        if not self._begun:
            self._begun = True
            self._run("BEGIN")
        for number in range(len(parameters)):
            command = command.replace("%s", f"${number + 1}", 1)
        return self._run(command, parameters)

    def commit(self):
        if self._begun:
            self._begun = False
            self._run("COMMIT")

    def rollback(self):
        if self._begun:
            self._begun = False
            self._run("ROLLBACK")

    def close(self):
        library().PQfinish(ctypes.c_void_p(self._open))

    def _run(self, command, parameters=()):
        pq = library()
        values = (ctypes.c_char_p * len(parameters))(*[str(one).encode() for one in parameters])
        result = ctypes.c_void_p(
            pq.PQexecParams(
                ctypes.c_void_p(self._open), command.encode(), len(parameters), None, values, None, None, 0
            )
        )
        try:
            if pq.PQresultStatus(result) not in {_COMMAND_OK, _TUPLES_OK}:
                raise Error(pq.PQresultErrorMessage(result).decode())
            columns = range(pq.PQnfields(result))
            kinds = [int if pq.PQftype(result, column) in _WHOLE_NUMBERS else str for column in columns]
            rows = [
                tuple(kinds[column](pq.PQgetvalue(result, row, column).decode()) for column in columns)
                for row in range(pq.PQntuples(result))
            ]
            return Cursor(rows, int(pq.PQcmdTuples(result) or -1))
        finally:
            pq.PQclear(result)


def connect(where):
    return Connection(where)
