"""The probe's checks: pure functions from observations to a verdict, grouped by what they look at."""
