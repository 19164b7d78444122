"""What is common to all actions: how requests are applied, bounds, times, fate, sealing.

The rule of a single action is in its module in `spark_eos.protocol.actions`.
"""
