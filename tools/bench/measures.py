"""What the benches' arms measure of themselves."""
import os


def cpu_seconds():
    """Of this process and the workers that it has."""
    total, tick = sum(os.times()[:2]), os.sysconf("SC_CLK_TCK")
    for task in os.listdir("/proc/self/task"):
        for child in open(f"/proc/self/task/{task}/children").read().split():
            fields = open(f"/proc/{child}/stat").read().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / tick
    return total
