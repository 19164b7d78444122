"""What is wrong with a log, as its state tells. ``eoslog status`` and the page show the same troubles."""
