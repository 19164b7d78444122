"""All mutants: small breaks of the product, each of which some test has to see."""

from __future__ import annotations

from tests.mutants import (
    of_clients,
    of_clocks,
    of_fate,
    of_forks,
    of_group_commit,
    of_groups,
    of_growth,
    of_interrupts,
    of_jobs,
    of_log,
    of_maintenance,
    of_name_deletion,
    of_objects,
    of_protocol,
    of_queries,
    of_reads,
    of_schemas,
    of_spark,
    of_storage,
    of_store_clock,
    of_topics,
    of_values,
)
from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: tuple[Mutant, ...] = (
    *of_protocol.MUTANTS,
    *of_values.MUTANTS,
    *of_topics.MUTANTS,
    *of_groups.MUTANTS,
    *of_queries.MUTANTS,
    *of_reads.MUTANTS,
    *of_schemas.MUTANTS,
    *of_log.MUTANTS,
    *of_storage.MUTANTS,
    *of_store_clock.MUTANTS,
    *of_clocks.MUTANTS,
    *of_group_commit.MUTANTS,
    *of_forks.MUTANTS,
    *of_growth.MUTANTS,
    *of_fate.MUTANTS,
    *of_maintenance.MUTANTS,
    *of_name_deletion.MUTANTS,
    *of_clients.MUTANTS,
    *of_interrupts.MUTANTS,
    *of_spark.MUTANTS,
    *of_jobs.MUTANTS,
    *of_objects.MUTANTS,
)
