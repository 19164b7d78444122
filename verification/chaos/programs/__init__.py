"""The programs that chaos strikes: producers, consume-transform-produce, and Spark drivers."""
