"""All that asks Python for the time is told one that is so many seconds later."""

import sys
import time

real, real_ns, later_s = time.time, time.time_ns, float(sys.argv[2])
time.time = lambda: real() + later_s
time.time_ns = lambda: real_ns() + int(later_s) * 10**9

from spark_eos import Admin, Producer  # noqa: E402

url = sys.argv[1]
producer = Producer(url)
producer.send("t", b"x")
producer.flush()
Admin(url).expire()
