"""Groups of processes: how they were started, what they agree on, and who is missing."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import in_networks, skip_without_networks

from seponet.cli import main
from seponet.distributed import meeting
from seponet.distributed.group import ALONE, ProcessLost
from seponet.distributed.launch import Launch, detect, first_host, read_address, seconds_left, unused_tasks
from seponet.distributed.link import Link
from seponet.distributed.session import local_devices
from seponet.distributed.star import Star

HERE = Path(__file__).parent

SRUN = {
    "SLURM_JOB_ID": "1234",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_STEP_NODELIST": "node[003-004]",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
}
"""What `srun -n 8` sets in one of its tasks."""

MPIRUN = {
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_MCA_orte_hnp_uri": "769785856.0;tcp://192.0.2.2:59841",
    "PMIX_NAMESPACE": "769785857",
}
"""What `mpirun -n 4` of Open MPI 4.1 sets, as it was seen on one machine."""


def test_srun_says_all():
    launch = detect(environ=SRUN)
    assert launch is not None
    assert (launch.source, launch.count, launch.index, launch.host) == ("Slurm", 8, 5, "node003")
    assert (launch.local_count, launch.local_index, launch.spans_hosts) == (4, 1, True)
    other = detect(environ={**SRUN, "SLURM_PROCID": "0", "SLURM_LOCALID": "0"})
    assert other is not None
    assert other.address == launch.address
    later = detect(environ={**SRUN, "SLURM_STEP_ID": "1"})
    assert later is not None
    assert later.port != launch.port


@pytest.mark.parametrize("missing", ["SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID"])
def test_half_of_slurms_variables_are_no_cluster(missing):
    environ = {key: value for key, value in SRUN.items() if key != missing}
    assert detect(environ=environ) is None
    # In a job with several tasks, one that trains alone is probably a mistake.
    assert "has 8 tasks, and one of them works, since it was not started by srun" in unused_tasks(environ)


def test_one_task_is_alone():
    one = {**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_STEP_NUM_NODES": "1"}
    for environ in (one, {}, {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}, {"SLURM_NTASKS": "8"}):
        assert detect(environ=environ) is None
        assert unused_tasks(environ) == ""
    assert detect("off", environ=SRUN) is None


def test_a_job_without_srun_is_told_so_on_the_command_line(capsys, monkeypatch):
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}.items():
        monkeypatch.setenv(name, value)
    assert main(["info", "--distributed"]) == 0
    assert "not started by srun: write srun before the command" in " ".join(capsys.readouterr().err.split())
    assert main(["info", "--distributed", "off"]) == 0
    assert capsys.readouterr().err == ""


def test_mpirun_says_all():
    launch = detect(environ=MPIRUN)
    assert launch is not None
    assert (launch.source, launch.count, launch.index, launch.host) == ("Open MPI", 4, 3, "127.0.0.1")
    far = detect(environ={**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert far is not None
    assert far.host == "192.0.2.2"
    hydra = {"PMI_SIZE": "4", "PMI_RANK": "1", "MPI_LOCALNRANKS": "4", "MPI_LOCALRANKID": "1"}
    launch = detect(environ=hydra)
    assert launch is not None
    assert (launch.source, launch.index, launch.host) == ("MPI", 1, "127.0.0.1")
    with pytest.raises(ValueError, match="MPI doesn't name the first: give --coordinator"):
        detect(environ={**hydra, "MPI_LOCALNRANKS": "2"})


def test_flags_count_first():
    launch = detect(processes=2, process_id=1, coordinator="[::1]:5000", environ=SRUN)
    assert launch == Launch("flags", 2, 1, "::1", 5000)
    assert Launch("flags", 2, 1, "::1", 5000).address == "[::1]:5000"
    # An address alone replaces the one that was found.
    launch = detect(coordinator="node9:5000", environ=SRUN)
    assert launch is not None
    assert (launch.count, launch.address) == (8, "node9:5000")
    assert detect(processes=1, process_id=0, environ={}) is None


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"processes": 2}, "are given together"),
        ({"processes": 2, "process_id": 0}, "are given together"),
        ({"processes": 2, "process_id": 2, "coordinator": "a:1"}, "counts from 0; got 2 of 2"),
        ({"processes": 2, "process_id": 0, "coordinator": "a"}, "HOST:PORT"),
        ({"mode": "on"}, "needs several processes"),
        ({"coordinator": "a:1"}, "needs several processes"),
        ({"mode": "off", "processes": 2}, "is for one process"),
        ({"coordinator": "127.0.0.1:1", "environ": SRUN}, "is each of them itself"),
        ({"coordinator": "localhost:1", "environ": SRUN}, "is each of them itself"),
    ],
)
def test_what_can_not_be_is_said_at_once(flags: dict[str, Any], sentence):
    with pytest.raises(ValueError, match=sentence):
        detect(**{"environ": {}, **flags})


@pytest.mark.parametrize("text", ["host", ":1", "host:", "host:0", "host:70000", "host:x", "host:²"])
def test_addresses_are_checked(text):
    with pytest.raises(ValueError, match="HOST:PORT"):
        read_address(text)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("node1", "node1"), ("a[003-007,12],b1", "a003"), ("n[1,5]", "n1"), ("x2,y[1-2]", "x2"), ("r[1-2]-ib,z", "r1-ib")],
)
def test_lists_of_nodes_are_read(nodes, first):
    assert first_host(nodes) == first


def test_an_allocation_ends():
    assert seconds_left({}) is None
    left = seconds_left({"SLURM_JOB_END_TIME": str(int(time.time()) + 1000)})
    assert left is not None
    assert 800 < left <= 900


def test_accelerators_are_shared_out():
    launch = detect(environ=MPIRUN)
    assert launch is not None
    assert local_devices(launch, {}) == [3]
    assert local_devices(launch, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}) == [3]
    assert local_devices(launch, {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(8)))}) == [6, 7]
    # A scheduler that gives each process its own shows it no others.
    assert local_devices(launch, {"CUDA_VISIBLE_DEVICES": "0"}) is None
    assert local_devices(Launch("flags", 2, 1, "a", 1), {}) is None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def gather(monkeypatch) -> Any:
    """Groups of threads in place of processes; none of them ends this process."""
    ended: list[tuple[int, str]] = []
    monkeypatch.setattr(Star, "end_at_once", lambda self, sentence: ended.append((self.index, sentence)))
    groups: list[list[Star]] = []

    def make(count: int, **seconds: float) -> list[Star]:
        port = free_port()
        with ThreadPoolExecutor(count) as threads:
            stars = list(
                threads.map(
                    lambda i: Star(Launch("flags", count, i, "127.0.0.1", port), **{"arrival": 20, **seconds}),
                    range(count),
                )
            )
        groups.append(stars)
        return stars

    make.ended = ended  # pyright: ignore[reportFunctionMemberAccess]
    yield make
    for stars in groups:
        for star in stars:
            star.close()


def each(stars: list[Star], do: Callable[[Star], Any]) -> list[Any]:
    """What all processes do at the same time; an error stands for itself."""

    def attempt(star: Star) -> Any:
        try:
            return do(star)
        except BaseException as error:
            return error

    with ThreadPoolExecutor(len(stars)) as threads:
        return list(threads.map(attempt, stars))


def test_all_have_what_the_leader_has(gather):
    stars = gather(4)
    assert each(stars, lambda star: star.same(lambda: [star.index, "text", 0.1, None])) == [[0, "text", 0.1, None]] * 4
    assert each(stars, lambda star: star.gather(star.index**2)) == [[0, 1, 4, 9]] * 4
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(300, 1000)), np.arange(3, dtype=np.int32), np.zeros((0, 2)), np.array(True)]
    for found in each(stars, lambda star: star.same_arrays(lambda: arrays)):
        assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(found, arrays, strict=True))
    # The leader's clock, to the last digit.
    assert len(set(each(stars, lambda star: star.tick()))) == 1


def test_a_request_to_one_stops_all_at_the_same_time(gather):
    stars = gather(3)

    done = [0, 0, 0]

    def work(star: Star) -> None:
        with star.together():
            while True:
                if done[star.index] == 5 and star.index == 2:
                    star.interrupt()
                star.tick()
                done[star.index] += 1
                time.sleep(0.01)

    stopped = each(stars, work)
    assert [type(stop) for stop in stopped] == [KeyboardInterrupt] * 3
    assert {str(stop) for stop in stopped} == {"process 2 was asked to end"}
    assert len(set(done)) == 1
    # Where nothing is done together, the process ends by itself, and the others with it.
    with pytest.raises(KeyboardInterrupt):
        stars[1].interrupt()
    with pytest.raises(KeyboardInterrupt):
        ALONE.interrupt()


def test_a_process_that_goes_is_missed_by_all_who_wait(gather):
    stars = gather(3, grace=0.5)

    def work(star: Star) -> Any:
        if star.index == 1:
            time.sleep(0.2)
            star.close()
            return None
        return star.gather(None)

    began = time.monotonic()
    leader, _, other = each(stars, work)
    assert time.monotonic() - began < 10
    assert isinstance(leader, ProcessLost)
    assert isinstance(other, ProcessLost)
    assert "process 1 of 3" in str(leader)
    assert "was lost" in str(leader)
    # The leader has said it, and who is told by it repeats the same.
    assert str(other) == str(leader)
    assert (leader.told, other.told) == (False, True)
    # Whoever does not come out by itself, since its devices hang, is ended.
    time.sleep(1.5)
    assert {index for index, _ in gather.ended} == {0, 2}


def test_a_process_that_is_silent_is_lost(gather, monkeypatch):
    """Cut off, frozen: the connection is there, and nothing comes."""
    stars = gather(2, silence=1.5, grace=60)
    each(stars, Star.loaded)
    monkeypatch.setattr(stars[1].links[0], "send", lambda *_: None)
    leader = each(stars[:1], lambda star: star.gather(None))[0]
    assert isinstance(leader, ProcessLost)
    assert "nothing was heard of it for" in str(leader)


def test_a_process_that_lives_but_does_not_come_is_named(gather):
    stars = gather(2, patience=0.5, grace=60)
    (leader,) = each(stars[:1], lambda star: star.gather(None))
    assert isinstance(leader, ProcessLost)
    assert "process 1 of 2" in str(leader)
    assert "lives, but has not come for" in str(leader)


def test_devices_that_never_answer_are_not_waited_for(gather):
    stars = gather(2, grace=0.5)
    saved = threading.Event()
    stars[0].rescue = saved.set
    with stars[0].computing(seconds=0.1):
        time.sleep(2.5)
    assert stars[0].lost is not None
    assert "devices have not answered" in str(stars[0].lost)
    assert (0, f"seponet: {stars[0].lost}") in gather.ended


def test_the_failure_of_devices_is_that_of_the_process_that_was_lost(gather):
    stars = gather(2, grace=60)

    def compute(star: Star) -> None:
        with star.computing():
            if star.index == 1:
                star.close()
            else:
                raise RuntimeError("connection reset by peer")

    leader = each(stars, compute)[0]
    assert isinstance(leader, ProcessLost)
    assert isinstance(leader.__cause__, RuntimeError)


def test_an_error_of_one_process_ends_all_and_is_said_once(gather):
    stars = gather(3, grace=60)
    told = each(stars, lambda star: star.fail("the folder exists"))
    # Whoever is first: usually the leader, by which the others are told.
    assert told.count(False) == 1
    assert any(star.lost and str(star.lost).endswith("stopped: the folder exists") for star in stars)


def test_a_leader_waits_for_all_and_names_who_is_missing():
    launch = Launch("flags", 3, 0, "127.0.0.1", free_port())
    with pytest.raises(
        ValueError, match=r"processes 1, 2 of 3 did not come to 127\.0\.0\.1:\d+ within 0 s; .* --wait 10min"
    ):
        meeting.meet(launch, 0.1, 5)
    launch = Launch("flags", 3, 1, "127.0.0.1", free_port())
    with pytest.raises(ValueError, match=r"process 1 found no process 0 .* 127\.0\.0\.1 is this machine itself"):
        meeting.meet(launch, 0.1, 5)
    with pytest.raises(ValueError, match=r"the name no-such-host\.invalid is not known here"):
        meeting.meet(Launch("flags", 3, 1, "no-such-host.invalid", 5000), 0.1, 5)


@pytest.mark.parametrize("lost", [0, 1])
def test_who_goes_while_others_are_waited_for_is_missed_at_once(lost):
    """Of three processes the last never comes, and one of the other two goes."""
    port = free_port()
    launches = [Launch("flags", 3, index, "127.0.0.1", port) for index in (0, 1)]
    found: list[Any] = []

    def stay(launch: Launch) -> None:
        try:
            meeting.meet(launch, 40, 30)
        except (ValueError, ProcessLost) as error:
            found.append((str(error), time.monotonic()))

    thread = threading.Thread(target=stay, args=[launches[1 - lost]])
    began = time.monotonic()
    if lost == 0:
        with socket.create_server(("127.0.0.1", port)) as server:
            thread.start()
            server.accept()[0].close()
    else:
        thread.start()
        link = None
        while link is None:
            try:
                link = Link(socket.create_connection(("127.0.0.1", port)), 5)
            except ConnectionRefusedError:
                time.sleep(0.01)
        link.send("hello", {"index": 1, "count": 3, "host": "elsewhere", "versions": meeting._versions()})
        # Process 0 gives signs of life while it waits.
        assert link.receive()[0] == "alive"
        link.close()
    thread.join()
    ((sentence, ended),) = found
    assert ended - began < 20
    assert ("has gone before all were there" if lost == 0 else "process 1 of 3 (on elsewhere) was lost") in sentence


def test_processes_meet_before_jax_is_loaded():
    """That takes seconds, in which a process may be lost."""
    words = "import sys, seponet.cli, seponet.distributed.star; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words]).returncode == 0


def test_a_process_that_stood_still_does_not_take_the_others_for_lost(gather, monkeypatch):
    """What they have said meanwhile is not read yet when its threads go on."""
    stars = gather(2, silence=1.5, grace=60)
    each(stars, Star.loaded)
    real, shift = time.monotonic, [0.0]
    monkeypatch.setattr("seponet.distributed.star.time.monotonic", lambda: real() + shift[0])
    shift[0] = 100.0
    time.sleep(2.5)
    assert [star.lost for star in stars] == [None, None]


def test_an_address_of_another_machine_is_refused_at_once():
    # An address that is nobody's but in documents.
    other = "203.0.113.77"
    with pytest.raises(ValueError, match=r"which is not 203\.0\.113\.77"):
        meeting.meet(Launch("flags", 2, 0, other, 5000), 5, 5)
    with pytest.raises(ValueError, match="no other machine finds it"):
        meeting.meet(Launch("Slurm", 2, 0, "127.0.0.1", 5000, local_count=1), 5, 5)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ValueError, match="can't wait at"):
        meeting.meet(Launch("flags", 2, 0, "127.0.0.1", taken.getsockname()[1]), 5, 5)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [({"versions": "seponet 0 with JAX 0"}, "has seponet 0"), ({"index": 7}, "processes 1 to 1 are expected")],
)
def test_strangers_are_refused(changed, sentence):
    launch = Launch("flags", 2, 0, "127.0.0.1", free_port())
    answers: list[Any] = []

    def come() -> None:
        while True:
            try:
                link = Link(socket.create_connection(("127.0.0.1", launch.port)), 5)
                break
            except ConnectionRefusedError:
                continue
        link.send("hello", {"index": 1, "count": 2, "host": "elsewhere", "versions": meeting._versions(), **changed})
        answers.append(link.receive())
        link.close()

    thread = threading.Thread(target=come)
    thread.start()
    with pytest.raises(ValueError, match=sentence):
        meeting.meet(launch, 10, 5)
    thread.join()
    assert answers[0][0] == "failed"


def test_what_is_no_message_is_sent_away():
    """Whatever else connects to the port does not end the run."""
    port = free_port()

    def scan() -> None:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port)) as other:
                    other.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    other.recv(1)
                return
            except ConnectionRefusedError:
                continue
            except OSError:
                return

    def come() -> Any:
        scan()
        return meeting.meet(Launch("flags", 2, 1, "127.0.0.1", port), 20, 5)

    with ThreadPoolExecutor(2) as threads:
        worker = threads.submit(come)
        links, hosts = meeting.meet(Launch("flags", 2, 0, "127.0.0.1", port), 20, 5)
        mine, _ = worker.result()
    assert set(links) == {1}
    assert set(hosts) == {0, 1}
    for link in (*links.values(), *mine.values()):
        link.close()


def test_a_machine_that_is_cut_off_ends_both_sides():
    """Nothing is closed and no packet comes: only silence tells."""
    skip_without_networks()
    member = f"{sys.executable} {HERE / 'star_member.py'}"
    script = f"""
    ip netns exec one {member} 0 & first=$!
    ip netns exec two {member} 1 > /run/two & second=$!
    until grep -q together /run/two; do sleep 0.1; done
    ip -n one link set left down
    wait $first
    wait $second
    cat /run/two
    """
    found = subprocess.run(
        in_networks(script),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
    )
    assert found.returncode == 0, found.stderr
    assert "process 1 of 2" in found.stdout
    assert "process 0 of 2" in found.stdout
    assert found.stdout.count("was lost") == 2
