"""How long, and how often, the machines of a log wait for their leader. None of it matters to safety but `REACH`."""

from __future__ import annotations

REACH = 16
"""A submission may be in so many slots from its own on, and in none after that."""

REFRESH_S = 2.0
"""So often a leader looks whether the hint names another one by now, and says there that others wait for it."""

BEGUN_S = 0.2
"""The same soon after it has begun: many may begin at a time."""

VISIT_S = 2.0
"""So often a process that writes alone looks whether others wait for a leader."""

LOOK_S = 0.5
"""So often, at most, a process that knows no leader looks at the hint."""

SPREAD_S = 1.5
"""When a leader is gone, all machines notice at the same time. Within so long each looks at the hint.

The first one leads. If all looked at once, all would lead.
"""

SILENCE_S = 3.0
"""A leader that has failed this process leads others if its hint changes within so long."""

SILENT_S = 5.0
"""A leader that says that it leads, and creates nothing for so long, is asked no more."""

FORGIVEN_S = 10.0
"""After so long a leader that has failed may be asked again, if the hint still names it."""

PATIENCE = 6
"""A leader that has created so many entries without what it was given is asked no more."""

OBJECT_PATIENCE = 12
"""The same for what it is given as an object, if that has also taken `OBJECT_WAITS_S`."""

OBJECT_WAITS_S = 5.0
"""A leader that has found no object lists them only each `REFRESH_S`."""

OBJECT_FORGIVEN_S = 60.0
"""So long a leader that has left out an object is given none: it may have no right to list them."""

OBJECT_SILENT_S = 2.0
"""Without an entry for so long, an object is no way to a leader: it may be gone, or have nothing to commit."""

POLL_S = 0.05
"""So long after an entry was not there, a process without a way to the leader looks again."""

REACHES_S = 10.0
"""So often such a process tries whether it can reach the leader by now."""
