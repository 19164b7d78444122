"""Records for the page: which are wanted, and where they are found."""
