"""Generated families: tasks without end whose answers are known exactly."""
