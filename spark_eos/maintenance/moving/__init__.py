"""Moving the data files of a log that is in use to another place."""
