"""Files that maintenance writes, and what it puts into them: Arrow, or Parquet that tables share with the log."""
