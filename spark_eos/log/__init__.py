"""Floor 3: the log. Rows are staged in Arrow files; entries decide what becomes of them."""
