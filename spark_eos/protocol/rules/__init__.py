"""The rules: ``apply(state, request) -> (state, outcome)``, total and deterministic.

A request that breaks a rule is rejected and changes nothing, so a faulty client can never poison a log.
One module for each noun: `topics`, `producers`, `appends`, `offsets`, `microbatch`, `starts`.
"""

from spark_eos.protocol.rules.appends import Appended
from spark_eos.protocol.rules.apply import (
    Accepted,
    Outcome,
    Rejected,
    apply,
    apply_entry,
    check_history,
    is_in_history,
    judged_by,
    lineage_after,
    state_after,
)

__all__ = [
    "Accepted",
    "Appended",
    "Outcome",
    "Rejected",
    "apply",
    "apply_entry",
    "check_history",
    "is_in_history",
    "judged_by",
    "lineage_after",
    "state_after",
]
