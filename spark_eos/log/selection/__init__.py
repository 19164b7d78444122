"""What is read of a topic: columns, and the rows that an expression is true of."""
