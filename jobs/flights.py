"""Flights as the jobs know them: the columns of the files, and what the values in the topics look like."""

from __future__ import annotations

__all__ = ["CORRUPT", "DEPARTURE", "FLIGHT"]

FLIGHT = """
    year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,
    sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    air_time INT, distance INT, hour INT, minute INT, time_hour STRING
"""
"""A row of flights.csv, and the value in topic ``flights``. Local times as numbers (517 is 5:17), delays and
``air_time`` in minutes, ``distance`` in miles; ``time_hour`` is the scheduled hour in UTC, in ISO 8601."""

CORRUPT = "_corrupt"
"""The column that gets the text of a value which cannot be read as a flight."""

DEPARTURE = "scheduled TIMESTAMP, origin STRING, dep_delay INT"
"""What `aggregate.py` needs of the values in topic ``departures``."""
