"""Python's prompt in a user's environment: statements come as JSON lines, and their outcomes go to a pipe.

It imports nothing of the package, nor of the tests: it is a file of the user's.
"""

import json
import os
import sys
import traceback


def main() -> None:
    outcomes = os.fdopen(int(sys.argv.pop(1)), "w", buffering=1)
    sys.argv[:] = [""]
    sys.path[0] = ""
    names = vars(sys.modules["__main__"])
    for line in sys.stdin:
        outcome = None
        for statement in json.loads(line):
            try:
                exec(compile(statement, "<stdin>", "single"), names)
            except BaseException:  # noqa: BLE001 - also `exit()`
                outcome = f"{statement}\n{traceback.format_exc()}"
                break
        sys.stdout.flush()
        outcomes.write(json.dumps(outcome) + "\n")


main()
