"""How the processes of one command were started: by Slurm, by MPI, by flags, or not at all."""

import ipaddress
import os
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

FIRST_PORT, PORTS = 61_440, 4_096
"""Where ports are chosen from that nobody named: above those that systems give to outgoing connections."""

MARGIN = 0.1
"""The part of what is left of an allocation that is kept for the evaluation and for writing."""


@dataclass(frozen=True)
class Launch:
    """One of several processes of a command.

    - `source`: who started them: "Slurm", "Open MPI", "MPI" or "flags".
    - `count`, `index`: how many there are, and which of them this is.
    - `host`, `port`: where process 0 waits for the others.
    - `local_count`, `local_index`: the same among those of this machine, if it is known.
    """

    source: str
    count: int
    index: int
    host: str
    port: int
    local_count: int | None = None
    local_index: int | None = None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def spans_hosts(self) -> bool:
        """Whether some processes are known to be on other machines."""
        return self.local_count is not None and self.local_count < self.count


def detect(
    mode: str = "auto",
    *,
    processes: int | None = None,
    process_id: int | None = None,
    coordinator: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Launch | None:
    """How this process was started; None if it is the only one.

    Flags count before Slurm's and MPI's variables. Of these only whole sets count: what a session inherits from an
    allocation, without being one of the tasks of a step, is no cluster.

    **Arguments:**

    - `mode`: "off" never looks; "auto" takes what is there; with "on" it is an error if there is nothing.
    - `processes`, `process_id`, `coordinator`: the flags; `coordinator` alone replaces the address that was detected.
    """
    environ = os.environ if environ is None else environ
    flags = {"--processes": processes, "--process-id": process_id}
    if mode == "off":
        if coordinator is not None or any(value is not None for value in flags.values()):
            raise ValueError("--distributed off is for one process: leave out --processes, --process-id, --coordinator")
        return None
    if any(value is not None for value in flags.values()):
        launch = _from_flags(processes, process_id, coordinator)
    else:
        launch = _from_slurm(environ) or _from_open_mpi(environ) or _from_hydra(environ)
        if launch is None:
            _refuse_lonely(mode, coordinator)
            return None
        if coordinator is not None:
            host, port = read_address(coordinator)
            launch = replace(launch, host=host, port=port)
    if launch.count == 1:
        return None
    if launch.spans_hosts and (not launch.host or is_loopback(launch.host)):
        raise ValueError(
            f"the {launch.count} processes are on several machines, and "
            + (f"{launch.host} is each of them itself" if launch.host else f"{launch.source} doesn't name the first")
            + ": give --coordinator HOST:PORT, the machine of process 0 by a name that the others know"
        )
    return launch


def read_address(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not port.isascii() or not 0 < int(port[:6]) < 2**16:
        raise ValueError(f"--coordinator is written HOST:PORT, for instance node1:5000; got {text!r}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether a host is every machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def seconds_left(environ: Mapping[str, str] | None = None) -> float | None:
    """The seconds that an allocation of Slurm's leaves for training; None without one."""
    end = _number(os.environ if environ is None else environ, "SLURM_JOB_END_TIME")
    return None if end is None else max((1 - MARGIN) * (end - time.time()), 0.0)


def _from_flags(processes: int | None, process_id: int | None, coordinator: str | None) -> Launch:
    if processes is None or process_id is None or (coordinator is None and processes > 1):
        raise ValueError("--processes N, --process-id I and --coordinator HOST:PORT are given together")
    if not 0 <= process_id < processes:
        raise ValueError(f"--process-id is below --processes, and counts from 0; got {process_id} of {processes}")
    host, port = ("localhost", FIRST_PORT) if coordinator is None else read_address(coordinator)
    return Launch("flags", processes, process_id, host, port)


def _from_slurm(environ: Mapping[str, str]) -> Launch | None:
    """A task of a step, which `srun` has started."""
    count, index = _number(environ, "SLURM_STEP_NUM_TASKS"), _number(environ, "SLURM_PROCID")
    job, step = _number(environ, "SLURM_JOB_ID"), _number(environ, "SLURM_STEP_ID")
    nodes = environ.get("SLURM_STEP_NODELIST", "")
    if count is None or index is None or job is None or step is None or not nodes or not 0 <= index < count:
        return None
    alone = _number(environ, "SLURM_STEP_NUM_NODES") == 1
    # Written "4(x2)" or "4,2": the first number is that of the first node.
    tasks = re.match(r"\d{1,9}", environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    local = count if alone else min(int(tasks.group()), count - 1) if tasks else None
    host = "127.0.0.1" if alone else first_host(nodes)
    return Launch("Slurm", count, index, host, _port(f"{job}.{step}"), local, _number(environ, "SLURM_LOCALID"))


def _from_open_mpi(environ: Mapping[str, str]) -> Launch | None:
    count, index = (_number(environ, f"OMPI_COMM_WORLD_{name}") for name in ("SIZE", "RANK"))
    if count is None or index is None or not 0 <= index < count:
        return None
    local_count, local = (_number(environ, f"OMPI_COMM_WORLD_LOCAL_{name}") for name in ("SIZE", "RANK"))
    # Where `mpirun` runs, which is where its first process is unless other machines were named.
    found = re.search(r"tcp://([^:,;]+)", environ.get("OMPI_MCA_orte_hnp_uri", ""))
    host = "127.0.0.1" if local_count == count else found.group(1) if found else ""
    job = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid") or str(os.getppid())
    return Launch("Open MPI", count, index, host, _port(job), local_count, local)


def _from_hydra(environ: Mapping[str, str]) -> Launch | None:
    """MPICH, Intel MPI and their relatives. All that they say of machines is how many processes are on this one."""
    count, index = _number(environ, "PMI_SIZE"), _number(environ, "PMI_RANK")
    local_count, local = _number(environ, "MPI_LOCALNRANKS"), _number(environ, "MPI_LOCALRANKID")
    if count is None or index is None or local_count is None or not 0 <= index < count:
        return None
    host = "127.0.0.1" if local_count == count else ""
    return Launch("MPI", count, index, host, _port(str(os.getppid())), local_count, local)


def _refuse_lonely(mode: str, coordinator: str | None) -> None:
    """What there is to say to a process that nobody has started together with others."""
    if mode == "on" or coordinator is not None:
        asked = "--distributed on" if coordinator is None else "--coordinator"
        raise ValueError(
            f"{asked} needs several processes, and this is one: start it by srun or mpirun, or give --processes N "
            "--process-id I --coordinator HOST:PORT"
        )


def unused_tasks(environ: Mapping[str, str] | None = None) -> str:
    """What to say where this process works alone in a job of several tasks, as one does that `srun` has not started;
    empty for any other."""
    environ = os.environ if environ is None else environ
    tasks = _number(environ, "SLURM_NTASKS")
    if "SLURM_JOB_ID" not in environ or tasks is None or tasks < 2 or _number(environ, "SLURM_STEP_NUM_TASKS") == 1:
        return ""
    return (
        f"this job of Slurm's has {tasks} tasks, and one of them works, since it was not started by srun: write srun "
        "before the command, or --distributed off"
    )


def first_host(nodes: str) -> str:
    """The first of a list as Slurm writes it: `node[003-007,12],gpu1` begins with `node003`."""
    head = re.match(r"([^\[,]*)(?:\[([^\],-]+)[^\]]*\]([^\[,]*))?", nodes)
    return nodes if head is None else "".join(part or "" for part in head.groups())


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 18 else None


def _port(job: str) -> int:
    return FIRST_PORT + zlib.crc32(job.encode()) % PORTS
