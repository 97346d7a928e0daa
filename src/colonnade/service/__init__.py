"""Running as a process: relay, supervisor, provisioning, certificates, folders, status."""
