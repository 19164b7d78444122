"""What Spark reads: the streaming source and the batch source."""
