"""The extensions: what each adds stands in the ``__init__.py`` of its folder (`spark_eos.extending`)."""
