"""Programs that test this code: a simulator of many processes, an explorer of interleavings, a chaos campaign.

They are no part of the package. `spark_eos.testing` has what users need to test their own stores and jobs.
"""
