"""Two machines with a cable between them: network namespaces of the tests' own."""

import shutil
import subprocess

import pytest

NETWORKS = """
set -e
mount -t tmpfs none /run
mkdir -p /run/netns
ip netns add one
ip netns add two
ip link add name left netns one type veth peer name right netns two
ip -n one addr add 10.77.0.1/24 dev left
ip -n two addr add 10.77.0.2/24 dev right
for side in "one left" "two right"; do set -- $side; ip -n $1 link set $2 up; ip -n $1 link set lo up; done
"""
"""Two machines with a cable between them."""


def in_networks(script: str) -> list[str]:
    return ["unshare", "--user", "--map-root-user", "--net", "--mount", "bash", "-c", NETWORKS + script]


def skip_without_networks() -> None:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip")
    probe = subprocess.run(in_networks("true"), capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"network namespaces are not permitted here: {probe.stderr.strip()[:200]}")
