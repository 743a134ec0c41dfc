"""A library that is loaded before libc (LD_PRELOAD) and steps the wall clock of one process, where a file says so.

No right to set the clock is needed, and no other process sees it. Its file holds a number: how many ms the wall clock
is ahead of the machine's, behind it below 0. It is read anew twenty times a second. The monotonic clocks go on as they
are, as they do where a clock is set. Needs Linux and a C compiler.
"""

from __future__ import annotations

from pathlib import Path

from lab.chaos.disk_shim import compile_library

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead_ms(void) {
    static __thread long known, looked_ms;
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    long now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (looked_ms && now_ms - looked_ms < 50) return known;
    looked_ms = now_ms;
    const char *file = getenv("STEPPED_FILE");
    char text[32];
    int fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return known;
    ssize_t n = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    return known = atol(text);
}
static void step(struct timespec *at) {
    long ms = ahead_ms(), ns = at->tv_nsec + ms % 1000 * 1000000L;
    at->tv_sec += ms / 1000;
    if (ns < 0) { ns += 1000000000L; at->tv_sec--; }
    if (ns >= 1000000000L) { ns -= 1000000000L; at->tv_sec++; }
    at->tv_nsec = ns;
}
int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) step(at);
    return failed;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class SteppedClock:
    """The wall clock of processes that are started with ``environment``."""

    def __init__(self, work: Path) -> None:
        """Compiles into ``work``. Raises FleetpulseError where that does not succeed."""
        library = compile_library(_SOURCE, work, "clock")
        self._file = work / "clock"
        self.set("none")
        self.environment = {"LD_PRELOAD": str(library), "STEPPED_FILE": str(self._file)}

    def set(self, fault: str) -> None:
        """From now on: ``none``, or how many ms ahead of the machine's."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text("0" if fault == "none" else fault)
        fresh.replace(self._file)
