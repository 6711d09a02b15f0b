"""Runs code that stands still (SIGSTOP) at its first hard link: where deltalake and `delta_tables` give a commit its
name. A process that imports this and calls `stand_still_at_the_link` stops itself there; SIGCONT lets it go on.

The kernel holds the system call back (seccomp's user notification, Linux 5.5 and later), so it does not matter who
makes it: Rust's threads are held as well. Sources: seccomp_unotify(2), seccomp(2).
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading

_LINKS = {"x86_64": (86, 265), "aarch64": (37, 37)}  # numbers of link and linkat
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction))]


class _Asked(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("rest", ctypes.c_ubyte * 72)]


class _Answer(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("val", ctypes.c_int64), ("error", ctypes.c_int32), ("flags", ctypes.c_uint32)]


def is_possible() -> bool:
    return platform.system() == "Linux" and platform.machine() in _LINKS


def stand_still_at_the_link() -> None:
    """From here on, in this thread and all that it starts: the first hard link waits until the process has been stopped
    and goes on."""
    libc = ctypes.CDLL(None, use_errno=True)
    listener: list[int] = []
    installed = threading.Event()
    # The thread that lets links go on must not be held itself, so it begins before.
    threading.Thread(target=_let_go_on, args=(libc, listener, installed), daemon=True).start()
    link, linkat = _LINKS[platform.machine()]
    load, jump, give = 0x20, 0x15, 0x06
    program = (_Instruction * 5)(
        _Instruction(load, 0, 0, 0),  # the system call's number
        _Instruction(jump, 2, 0, link),
        _Instruction(jump, 1, 0, linkat),
        _Instruction(give, 0, 0, 0x7FFF0000),  # allow
        _Instruction(give, 0, 0, 0x7FC00000),  # ask
    )
    assert libc.prctl(38, 1, 0, 0, 0) == 0, "no new privileges"
    fd = libc.syscall(_SECCOMP[platform.machine()], 1, 8, ctypes.byref(_Program(5, program)))
    assert fd >= 0, os.strerror(ctypes.get_errno())
    listener.append(fd)
    installed.set()


def _let_go_on(libc: ctypes.CDLL, listener: list[int], installed: threading.Event) -> None:
    installed.wait()
    stopped = False
    while True:
        asked = _Asked()
        if libc.ioctl(listener[0], _RECEIVE, ctypes.byref(asked)) != 0:
            return
        if not stopped:
            stopped = True
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # to this thread: it takes no further step
        libc.ioctl(listener[0], _SEND, ctypes.byref(_Answer(asked.id, 0, 0, _CONTINUE)))
