"""A fuzzer of everything that reads foreign bytes: `make fuzz MINUTES=30`.

A target is sound input, a way to damage it, and a reader. A case is the target's input, damaged by
a random generator that its target, seed and number determine. Each case ends in an answer that is
checked, or in uqled's own error; another exception, a crash of the interpreter, a hang, memory that
grows, and files or processes that a reader has no business with are failures.

    mutations    bytes, JSON, arrays and trees of files, damaged by a generator
    formats      the same, inside what compresses or checks its content: gzip, zip, tar, PNG
    case         targets, and one case from the copy of its input to its outcome
    watch        what a case may not do: write, delete, start or connect elsewhere
    workers      cases in forked processes, which name each case before it starts
    campaign     many cases: who runs what, what failed, what to print
    targets      the targets, a file for each kind of input
    accidents    whole commands killed, starved of disk space or raced: `make accidents`
    scenarios    those commands, and what must hold of their files
    children     a command in a forked process
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # a forked process has none of its parent's threads
