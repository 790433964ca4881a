"""The probe: validates a job before it may cost GPU time, and says what to change.

    report = await probe.run(job_dir, task, services)

Author code runs in the jail only. `CHECKS` names all checks in order; limits are in `config.probe`.
"""

from trainsmith.probe.plan import CHECKS, Planned, Stage
from trainsmith.probe.run import run
from trainsmith.probe.services import ProbeServices

__all__ = ["CHECKS", "Planned", "ProbeServices", "Stage", "run"]
