"""Public reports read as launches, and answers compared with their labels."""
