"""Two runs side by side: what differs, what it costs, and what explains it."""
