"""Monitoring: readiness, and metrics for Prometheus."""
