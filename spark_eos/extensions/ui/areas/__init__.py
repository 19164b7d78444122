"""What the page shows, a module for each area: functions from a follower and a question to a JSON answer."""
