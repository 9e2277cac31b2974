"""Doors in and out, one file a launcher: its words read into a launch, and decisions written back as its words."""
