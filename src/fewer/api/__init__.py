"""What `fewer` offers to Python programs: functions that return values and print nothing."""
