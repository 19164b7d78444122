"""What Spark writes: the streaming sink and the batch sink, and the proof at the commit."""
