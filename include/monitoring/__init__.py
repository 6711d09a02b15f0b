"""Reports how pipelines are doing: status, lag, health, alerts, the page's facts. Imports `control` and below."""
