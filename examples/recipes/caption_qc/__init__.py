"""Check caption files in bulk, from cron, safely."""
