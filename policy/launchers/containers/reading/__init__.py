"""What the formats share: words of commands, scripts, pods, options."""
