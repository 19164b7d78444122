"""Runs programs in children of this process, which has loaded the package and done nothing with it yet.

Each line of the input is one: its arguments, the first of them its path, and the files for its outputs. It runs where a
main program does, and the interpreter comes to its end behind it as it always does. Answered is its status.
"""

import gc
import json
import os
import sys
from pathlib import Path

import fastavro  # noqa: F401  (it and pandas are imported when they are needed first)
import pandas as pd  # noqa: F401

import spark_eos.testing  # noqa: F401
from spark_eos import Consumer, Producer  # noqa: F401

gc.freeze()  # Else each child copies all that is loaded, to look through it at its end.
program = outputs = None
for line in sys.stdin:
    sys.argv, outputs = json.loads(line)
    child = os.fork()
    if not child:
        program = Path(sys.argv[0])
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

if program is not None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    exec(compile(program.read_text("utf-8"), program, "exec"))
