"""What has no subject of its own: durable files, logs, progress, workers, memory and public coins."""
