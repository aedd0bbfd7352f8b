#!/usr/bin/env python3
"""torch_power.py - what the power limit takes from a GPU, by what it runs.

A GPU that reaches its power limit lowers its clock until the mean power of what it runs, memory-bound
kernels, waits and all, is the limit. So the same matmul takes longer in a step that is all matmuls than
in one that is half of them. This program measures that: one compute-bound kernel in turn with others
that draw less, in several shares of the time.

    python3 torch_power.py -o DIR [--seconds S]

Writes DIR/power.csv: the kernel, what fills the rest of the time (memory: copies that miss L2; wait: a
kernel that spins on one multiprocessor; idle: nothing, the host sleeps), the length of a burst, the share
of the time that the kernel wants at boost clock, its median time, that of one call of the filler, mean
power and clock over the run without its first 1.5 seconds, over as long as the driver averages power on
Hopper. boost_us is a first call's time after a pause; where a later point is shorter, that is nearer.
"""
import argparse
import csv
import os
import sys
import threading
import time

import pynvml
import torch
import torch.nn.functional as F

GPU = torch.device("cuda")
COPY_BYTES = 512 << 20
SETTLE_S = 1.5  # the driver's mean of power


class Sampler(threading.Thread):
    """Power and clock every 10 ms."""

    def __init__(self):
        super().__init__(daemon=True)
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.samples, self.going = [], True

    def run(self):
        while self.going:
            self.samples.append((time.perf_counter(),
                                 pynvml.nvmlDeviceGetPowerUsage(self.handle) / 1e3,
                                 pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM)))
            time.sleep(0.01)

    def mean_since(self, start):
        rows = [s for s in self.samples if s[0] >= start] or [(0, 0, 0)]
        return sum(r[1] for r in rows) / len(rows), sum(r[2] for r in rows) / len(rows)


def matmul(m, n, k):
    a, b = (torch.randn(s, device=GPU, dtype=torch.bfloat16) for s in ((m, k), (n, k)))
    return lambda: a @ b.t()


def attention(batch, heads, length, size, causal):
    q, k, v = (torch.randn(batch, heads, length, size, device=GPU, dtype=torch.bfloat16)
               for _ in range(3))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def copy():
    a = torch.randn(COPY_BYTES // 4, device=GPU)
    b = torch.empty_like(a)
    return lambda: b.copy_(a)


def spin(us):
    cycles = int(us * 1980)
    return lambda: torch.cuda._sleep(cycles)


def time_us(run, calls=20):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) * 1e3 / calls


def measure(kernel, filler, kernel_calls, filler_calls, seconds, idle_s=0.0):
    """Bursts of kernel_calls and filler_calls in turn; medians of the bursts after half a second."""
    bursts = []
    sampler = Sampler()
    sampler.start()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        marks[0].record()
        for _ in range(kernel_calls):
            kernel()
        marks[1].record()
        for _ in range(filler_calls):
            filler()
        marks[2].record()
        bursts.append((time.perf_counter(), marks))
        if idle_s > 0:
            torch.cuda.synchronize()
            time.sleep(idle_s)
        elif len(bursts) > 4:
            bursts[-4][1][2].synchronize()
    torch.cuda.synchronize()
    power, clock = sampler.mean_since(begin + SETTLE_S)
    sampler.going = False
    sampler.join()
    late = [m for at, m in bursts if at > begin + 0.5] or [m for _, m in bursts]
    middle = len(late) // 2
    return {"time_us": sorted(m[0].elapsed_time(m[1]) for m in late)[middle] * 1e3 / kernel_calls,
            "filler_us": sorted(m[1].elapsed_time(m[2]) for m in late)[middle] * 1e3
                         / max(filler_calls, 1) if filler_calls else 0,
            "power_W": power, "sm_MHz": clock, "bursts": len(late)}


KERNELS = [
    ("matmul 8192x4096x4096", lambda: matmul(8192, 4096, 4096), 2.0 * 8192 * 4096 * 4096),
    ("matmul 8192x8192x8192", lambda: matmul(8192, 8192, 8192), 2.0 * 8192**3),
    ("matmul 25216x1024x1024", lambda: matmul(25216, 1024, 1024), 2.0 * 25216 * 1024 * 1024),
    ("matmul 2048x4096x4096", lambda: matmul(2048, 4096, 4096), 2.0 * 2048 * 4096 * 4096),
    ("attention 4x32x4096x128 causal", lambda: attention(4, 32, 4096, 128, True), 4.0 * 4 * 32 * 4096**2 * 128 / 2),
    ("attention 64x16x577x64 full", lambda: attention(64, 16, 577, 64, False), 4.0 * 64 * 16 * 577**2 * 64),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", default=".", metavar="DIR", dest="directory")
    parser.add_argument("--seconds", type=float, default=3, help="of a point")
    parser.add_argument("--quick", action="store_true", help="two kernels, fewer shares")
    arguments = parser.parse_args()
    pynvml.nvmlInit()
    torch.manual_seed(1)
    name = torch.cuda.get_device_name()
    memory = copy()
    memory_us = time_us(memory)
    columns = ["device", "kernel", "filler", "burst_us", "share", "boost_us", "flop", "time_us", "filler_us",
               "power_W", "sm_MHz", "bursts"]
    with open(os.path.join(arguments.directory, "power.csv"), "w", newline="") as file:
        out = csv.DictWriter(file, columns)
        out.writeheader()

        def point(what, flop, boost_us, kernel, filler_name, filler, filler_us, share, burst_us, idle=False):
            calls = max(1, round(burst_us / boost_us)) if share > 0 else 0
            rest_us = burst_us * (1 - share) / share if share > 0 else burst_us
            seconds = max(arguments.seconds, 8e-6 * burst_us)
            row = measure(kernel if calls else (lambda: None), filler, max(calls, 1),
                          0 if idle else round(rest_us / filler_us), seconds,
                          rest_us / 1e6 if idle else 0)
            out.writerow({"device": name, "kernel": what, "filler": filler_name, "burst_us": burst_us,
                          "share": share, "boost_us": boost_us, "flop": flop,
                          **{k: round(v, 2) for k, v in row.items()}})
            file.flush()
            print(f"{what} | {filler_name} share {share:.2f} burst {burst_us:.0f}: {row['time_us']:.1f} us "
                  f"(boost {boost_us:.1f}), {row['power_W']:.0f} W, {row['sm_MHz']:.0f} MHz",
                  file=sys.stderr, flush=True)

        point("none", 0, 0, None, "memory", memory, memory_us, 0, 20000)
        point("none", 0, 0, None, "wait", spin(500), 500, 0, 20000)
        for index, (what, make, flop) in enumerate(KERNELS):
            if arguments.quick and index not in (0, 4):
                continue
            kernel = make()
            time.sleep(1)  # the clock is back at its highest
            boost_us = time_us(kernel)
            first = index == 0
            for share in (1, 0.75, 0.5, 0.25) if not first else (1, 0.85, 0.7, 0.6, 0.5, 0.4, 0.25):
                point(what, flop, boost_us, kernel, "memory", memory, memory_us, share, 4000)
            for share in (0.75, 0.5) if not first else (0.85, 0.7, 0.5, 0.3):
                point(what, flop, boost_us, kernel, "wait", spin(500), 500, share, 4000)
            if first:  # over how long the limit is a mean
                for burst_us in (20000, 100000, 400000):
                    point(what, flop, boost_us, kernel, "idle", None, 1, 0.5, burst_us, idle=True)
                    point(what, flop, boost_us, kernel, "memory", memory, memory_us, 0.5, burst_us)


if __name__ == "__main__":
    main()
