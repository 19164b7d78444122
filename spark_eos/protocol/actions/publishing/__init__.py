"""Publications: topics that become tables of another format, all of them as they are after one entry of the log.

A publisher makes a version in three steps. `BeginPublish` says what the version will have, and pins it. Then each
table gets its version, by the table's own compare-and-set. `EndPublish` says that all tables have it. A publisher that
dies in between leaves the intent in the log, and the next one finishes it. Before that it takes a new epoch
(`FencePublisher`): from then on the log refuses the old publisher, wherever it was paused.

The version before is pinned until the end, since it is what readers of the tables have until then.
"""
