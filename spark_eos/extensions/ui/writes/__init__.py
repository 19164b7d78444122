"""What a person may change through the page: each change asks again, is done once, and says what became of it."""
