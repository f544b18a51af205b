"""What an operator's instruments read: readiness, and metrics for Prometheus."""
