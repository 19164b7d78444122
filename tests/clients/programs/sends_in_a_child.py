"""A child of multiprocessing sends records, while one of its parent waits; says how the child has ended."""

import multiprocessing
import sys

from spark_eos import Producer


def work(url, records):
    producer = Producer(url)
    for number in range(records):
        producer.send("t", b"%d" % number)


if __name__ == "__main__":
    method, url, records = sys.argv[1], sys.argv[2], int(sys.argv[3])
    above = Producer(url, linger_ms=60_000)
    above.send("t", b"above")
    child = multiprocessing.get_context(method).Process(target=work, args=(url, records))
    child.start()
    child.join()
    print(child.exitcode)
