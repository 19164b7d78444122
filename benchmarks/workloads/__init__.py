"""One module for each workload: ``TITLE``, ``TEXT`` (for the page) and ``run(bench)``."""
