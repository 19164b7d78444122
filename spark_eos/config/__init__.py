"""Floor 0: every option there is, in one table for each kind, and the one reader of their values. No I/O.

An option is a row (`spark_eos.config.option.Option`) in `producer`, `consumer`, `topic`, `log`, `source`, `sink` or
`store`. What is checked, what `eoslog configs` shows and the pages docs/reference/options.md and topic-settings.md
all come from these rows.
"""
