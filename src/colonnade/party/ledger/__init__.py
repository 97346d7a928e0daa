"""The durable record of what was released and what it cost."""
