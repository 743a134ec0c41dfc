"""A library that is loaded before libc (LD_PRELOAD) and lets the disk below one folder fail, where a file says so.

No right to mount is needed, and the process under test is the shipped one. Its file holds one of ``none``, ``full``
(ENOSPC, except where a file has its room already), ``read-only`` (EROFS), ``failing`` (EIO when data are synced) and
``slow N`` (a sync takes N ms). Needs Linux and a C compiler.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from schemas.errors import FleetpulseError

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int below(const char *path) {
    const char *folder = getenv("FAULTY_FOLDER");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}
static int below_fd(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}
static void fault(char *out, size_t room) {
    const char *file = getenv("FAULTY_FILE");
    out[0] = 0;
    int fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    ssize_t n = syscall(SYS_read, fd, out, room - 1);
    syscall(SYS_close, fd);
    out[n > 0 ? n : 0] = 0;
}
static void hit(void) { /* this process has met the fault */
    const char *file = getenv("FAULTY_HITS");
    char text[16];
    int fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (fd < 0) return;
    syscall(SYS_write, fd, text, (size_t)snprintf(text, sizeof text, "%d\n", (int)getpid()));
    syscall(SYS_close, fd);
}
static int write_error(void) {
    char f[32];
    fault(f, sizeof f);
    return strncmp(f, "full", 4) == 0 ? ENOSPC : strncmp(f, "read-only", 9) == 0 ? EROFS : 0;
}
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static int in_place(int fd, off64_t end) { /* a full disk takes what has its room already */
    char f[32];
    struct stat about;
    fault(f, sizeof f);
    return strncmp(f, "full", 4) == 0 && fstat(fd, &about) == 0 && end <= about.st_size;
}
#define PLACED if (!below_fd(fd) || in_place(fd, o + (off64_t)n)) return syscall(SYS_pwrite64, fd, b, n, o);
#define REFUSED(is_below) int e = (is_below) ? write_error() : 0; if (e) { hit(); errno = e; return -1; }

ssize_t write(int fd, const void *b, size_t n) { REFUSED(below_fd(fd)) return REAL(write)(fd, b, n); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { PLACED REFUSED(1) return REAL(pwrite)(fd, b, n, o); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { PLACED REFUSED(1) return REAL(pwrite64)(fd, b, n, o); }
int mkdir(const char *p, mode_t m) { REFUSED(below(p)) return REAL(mkdir)(p, m); }
int rename(const char *a, const char *b) { REFUSED(below(b)) return REAL(rename)(a, b); }

static int synced(int fd) {
    char f[32];
    if (!below_fd(fd)) return 0;
    fault(f, sizeof f);
    if (strncmp(f, "failing", 7) == 0) { hit(); errno = EIO; return -1; }
    if (strncmp(f, "read-only", 9) == 0) { hit(); errno = EROFS; return -1; }
    if (strncmp(f, "slow ", 5) == 0) {
        long ms = atol(f + 5);
        hit();
        struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
        nanosleep(&t, NULL);
    }
    return 0;
}
int fsync(int fd) { return synced(fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return synced(fd) ? -1 : REAL(fdatasync)(fd); }

#define OPEN(name) int name(const char *p, int flags, ...) { \
    va_list list; va_start(list, flags); mode_t m = flags & O_CREAT ? va_arg(list, mode_t) : 0; va_end(list); \
    REFUSED((flags & (O_WRONLY | O_RDWR | O_CREAT)) && below(p)) return REAL(name)(p, flags, m); }
OPEN(open)
OPEN(open64)
"""


def compiler() -> str | None:
    """The C compiler of this machine; None where there is none."""
    return shutil.which("cc") or shutil.which("gcc")


def compile_library(source: str, work: Path, name: str) -> Path:
    """The library ``work/NAME.so`` of this C text. Raises FleetpulseError where that does not succeed."""
    cc = compiler()
    if cc is None:
        raise FleetpulseError(f"faults of the {name} need a C compiler (cc) on this machine")
    library, text = work / f"{name}.so", work / f"{name}.c"
    text.write_text(source)
    command = [cc, "-shared", "-fPIC", "-O1", "-o", str(library), str(text), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FleetpulseError(f"the shim for faults of the {name} does not compile: {done.stderr.strip()[:500]}")
    return library


class FaultyDisk:
    """The disk below ``folder`` for processes that are started with ``environment``."""

    def __init__(self, folder: Path, work: Path) -> None:
        """Compiles into ``work``. Raises FleetpulseError where that does not succeed."""
        library = compile_library(_SOURCE, work, "disk")
        self._file, self._hits = work / "fault", work / "hits"
        self.set("none")
        places = {"FAULTY_FOLDER": folder, "FAULTY_FILE": self._file, "FAULTY_HITS": self._hits}
        about = {"LD_PRELOAD": library, **places}
        self.environment = {name: str(path) for name, path in about.items()}

    def set(self, fault: str) -> None:
        """From now on."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(fault)
        fresh.replace(self._file)

    def hits(self, pid: int) -> int:
        """How many calls of a process it has failed or slowed."""
        return self._hits.read_text().split().count(str(pid)) if self._hits.exists() else 0
