"""All mutants: small breaks of the product, each of which some test has to see."""

from __future__ import annotations

from tests.mutants import (
    of_clients,
    of_clocks,
    of_company,
    of_evidence,
    of_forks,
    of_groups,
    of_growth,
    of_interrupts,
    of_log,
    of_maintenance,
    of_objects,
    of_protocol,
    of_queries,
    of_retired,
    of_spark,
    of_storage,
    of_store_clock,
    of_topics,
)
from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: tuple[Mutant, ...] = (
    *of_protocol.MUTANTS,
    *of_topics.MUTANTS,
    *of_groups.MUTANTS,
    *of_queries.MUTANTS,
    *of_log.MUTANTS,
    *of_storage.MUTANTS,
    *of_store_clock.MUTANTS,
    *of_clocks.MUTANTS,
    *of_company.MUTANTS,
    *of_forks.MUTANTS,
    *of_growth.MUTANTS,
    *of_evidence.MUTANTS,
    *of_maintenance.MUTANTS,
    *of_retired.MUTANTS,
    *of_clients.MUTANTS,
    *of_interrupts.MUTANTS,
    *of_spark.MUTANTS,
    *of_objects.MUTANTS,
)
