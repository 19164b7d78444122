"""Publishers of tables are killed beside live writers, maintenance and slow readers; every version is compared.

`scripts/publish-chaos` runs it.
"""
