"""What follows a training: calibration, errors over unseen functions, pictures. None of it can cost the operator."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._precision import in_precision_of
from .._text import plain
from ..evaluation.break_even import break_even
from ..evaluation.report import evaluation_report
from ..operator.calibrate import NotCalibrated
from ..operator.error_labels import describe_calibration
from ..operator.operator import Operator
from ..training.progress import progress_bar
from .figures import plot_run
from .folder import RunFolder

logger = logging.getLogger(__name__)


def calibrated(operator: Operator, functions: int) -> tuple[Operator, dict[str, Any]]:
    """The operator with calibrated error estimates, and what its report says of them; or as it is, with the reason.
    Whatever goes wrong with them, the operator is trained."""
    if functions <= 0:
        return operator, {}
    began = time.perf_counter()
    try:
        calibrated = operator.calibrate(functions)
    except NotCalibrated as error:
        logger.info("error estimates can't be calibrated: %s", error)
        return operator, {"reason": str(error)}
    except Exception as error:
        logger.warning(
            "the operator is trained, but its calibration failed: %s: %s (try operator.calibrate())",
            type(error).__name__,
            error,
        )
        return operator, {"reason": f"{type(error).__name__}: {error}"}
    assert calibrated.calibration is not None
    logger.info("%s", describe_calibration(calibrated.calibration))
    return calibrated, {**calibrated.calibration.report(), "seconds": time.perf_counter() - began}


def evaluated(folder: RunFolder, operator: Operator, functions: int, quiet: bool) -> Mapping[str, Any]:
    """The report with the errors over unseen functions."""
    with (
        in_precision_of(operator.model),
        progress_bar("solving the test functions", quiet) as progress,
    ):
        errors = evaluation_report(operator, functions, "converged", progress)
    return folder.add_to_report(plain({**errors, **break_even({**folder.read_report(), **errors})}))


def drawn(folder: RunFolder, operator: Operator) -> tuple[Path, ...]:
    """Pictures come last: whatever goes wrong with them, the run is complete."""
    try:
        return tuple(plot_run(folder, operator))
    except Exception as error:
        logger.warning("the run is complete, but its pictures failed: %s: %s", type(error).__name__, error)
        return ()
