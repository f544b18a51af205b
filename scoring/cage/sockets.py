"""A process gives up making sockets, for good: servers that listen at a file are out of its reach, as the network is.

Landlock says which files may be opened, and a socket at a file is not opened but connected to: a database or a broker
of this host that trusts its users would answer. So the kernel refuses the calls that make a socket; those that a
process has stay. The filter is small enough to be read: see seccomp(2), and linux/filter.h for its instructions.
"""

import ctypes
import platform
from errno import EACCES

SECCOMP, FILTER = 22, 2  # of prctl(2)
LOAD, EQUAL, AT_LEAST, ANSWER = 0x20, 0x15, 0x35, 0x06  # a word, jump if equal or at least, return
NUMBER, ARCHITECTURE = 0, 4  # where in the record of a call
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | EACCES, 0x80000000
# By machine: how the kernel names the architecture, socket(2) and socketpair(2), whose datagrams go anywhere. Calls of
# another architecture, as of 32 bits, end the process.
CALLS = {"x86_64": (0xC000003E, 41, 53), "aarch64": (0xC00000B7, 198, 199), "riscv64": (0xC00000F3, 198, 199)}
RING = 425  # io_uring_setup(2), which makes sockets too: the same on every architecture
OTHER_NUMBERS = 0x40000000  # from here on x86_64 has the same calls once more

_c = ctypes.CDLL(None, use_errno=True)


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


def refuse_sockets() -> bool:
    """Let this thread, and what it starts, make no more sockets; False where that cannot be had.

    It must have given up gaining rights (`NO_NEW_PRIVILEGES` of prctl) before.
    """
    if platform.machine() not in CALLS:
        return False
    architecture, make_socket, make_pair = CALLS[platform.machine()]
    steps = (
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture),
        (ANSWER, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (EQUAL, 4, 0, make_socket),
        (EQUAL, 3, 0, make_pair),
        (EQUAL, 2, 0, RING),
        (AT_LEAST, 1, 0, OTHER_NUMBERS),
        (ANSWER, 0, 0, ALLOW),
        (ANSWER, 0, 0, REFUSE),
    )
    instructions = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    program = _Program(len(instructions), instructions)
    return bool(_c.prctl(SECCOMP, FILTER, ctypes.byref(program), 0, 0) == 0)
