"""Reports how pipelines do: status, lag, health, alerts, the page's facts. Imports `control` and below."""
