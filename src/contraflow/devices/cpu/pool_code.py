"""The code of the pool of threads, as LLVM IR: how a job is run, dealt and waited for.

`pool.py` says what a job is, and starts the threads that run this.
"""

from __future__ import annotations

import platform
import sys

IDLE_SPIN = 40000  # pauses, about a millisecond, before a worker sleeps: eager ops come so fast
BARRIER_SPIN = 1000  # pauses before a thread that waits for others lets the system run them

# How a row is run, and what follows it; where threads check for errors they have met before.
MEET, DEAL, CHECK = 1, 2, 4
ROUNDS = 3  # in which a row is dealt: its pieces are a half, then quarters of a share
PARTS = 1 << (ROUNDS - 1)  # of a share: the size of a piece in the last two rounds
ERRORS = 0  # the base that points to a pair of words per part: zeros, or a line and an index

_COMMON = """
%job = type { ptr, i64, ptr, i64 }  ; rows, their count, bases, shares

define internal i1 @failed(ptr %bases, i64 %count) #0 {
entry:
  %errors = load ptr, ptr %bases
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %well ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %well.all
look:
  %address = getelementptr [2 x i64], ptr %errors, i64 %i
  %word = load i64, ptr %address
  %wrong = icmp ne i64 %word, 0
  br i1 %wrong, label %found, label %well
well:
  %i.next = add i64 %i, 1
  br label %head
well.all:
  ret i1 false
found:
  ret i1 true
}
"""

_ALONE = (
    _COMMON
    + """
define i32 @run_alone(ptr %job) #0 {
entry:
  %count.p = getelementptr %job, ptr %job, i32 0, i32 1
  %bases.p = getelementptr %job, ptr %job, i32 0, i32 2
  %shares.p = getelementptr %job, ptr %job, i32 0, i32 3
  %rows = load ptr, ptr %job
  %count = load i64, ptr %count.p
  %bases = load ptr, ptr %bases.p
  %shares = load i64, ptr %shares.p
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ], [ %i.next, %checked ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %row, label %done
row:
  %entry.address = getelementptr [4 x ptr], ptr %rows, i64 %i
  %function = load ptr, ptr %entry.address
  %arguments.address = getelementptr ptr, ptr %entry.address, i64 1
  %arguments = load ptr, ptr %arguments.address
  br label %share
share:
  %s = phi i64 [ 0, %row ], [ %s.next, %call ]
  %another = icmp slt i64 %s, %shares
  br i1 %another, label %call, label %next
call:
  %s.next = add i64 %s, 1
  call void %function(ptr %bases, ptr %arguments, i64 %s, i64 %s.next, i64 %shares)
  br label %share
next:
  %flags.address = getelementptr i64, ptr %entry.address, i64 2
  %flags = load i64, ptr %flags.address
  %i.next = add i64 %i, 1
  %check.flag = and i64 %flags, $check
  %check = icmp ne i64 %check.flag, 0
  br i1 %check, label %checked, label %head
checked:
  %wrong = call i1 @failed(ptr %bases, i64 %shares)
  br i1 %wrong, label %stopped, label %head
stopped:
  ret i32 1
done:
  ret i32 0
}
attributes #0 = { nounwind }
"""
)

_TOGETHER = (
    _COMMON
    + """
%block = type {
  i32, [60 x i8],              ; 0: generation, the number of jobs so far; the futex
  i32, [60 x i8],              ; 2: workers that have finished the job
  i32, [60 x i8],              ; 4: workers asleep
  i32, [60 x i8],              ; 6: threads waiting at the barrier
  i32, [60 x i8],              ; 8: generation of the barrier
  ptr, i32, i32, [48 x i8],    ; 10: the job; 11: stop; 12: the core of the last caller
  [128 x i8], [128 x i8]       ; 14: a mutex; 15: a condition variable; no system has larger ones
}
declare i32 @sched_yield()
$sleeping

define internal i32 @relax(i32 %turns) #0 {
entry:
  $pause
  %long = icmp sge i32 %turns, $barrier_spin
  br i1 %long, label %yield, label %done
yield:
  %ignored = call i32 @sched_yield()
  br label %done
done:
  %next = add i32 %turns, 1
  %result = select i1 %long, i32 0, i32 %next
  ret i32 %result
}

define internal void @barrier(ptr %pool, i64 %shares) #0 {
entry:
  %arrived.p = getelementptr %block, ptr %pool, i32 0, i32 6
  %generation.p = getelementptr %block, ptr %pool, i32 0, i32 8
  %generation = load atomic i32, ptr %generation.p acquire, align 4
  %before = atomicrmw add ptr %arrived.p, i32 1 acq_rel
  %threads = trunc i64 %shares to i32
  %arrived = add i32 %before, 1
  %last = icmp eq i32 %arrived, %threads
  br i1 %last, label %release, label %wait
release:
  store atomic i32 0, ptr %arrived.p monotonic, align 4
  %following = add i32 %generation, 1
  store atomic i32 %following, ptr %generation.p release, align 4
  ret void
wait:
  %turns = phi i32 [ 0, %entry ], [ %turns.next, %again ]
  %now = load atomic i32, ptr %generation.p acquire, align 4
  %open = icmp ne i32 %now, %generation
  br i1 %open, label %done, label %again
again:
  %turns.next = call i32 @relax(i32 %turns)
  br label %wait
done:
  ret void
}

define internal i32 @run_share(ptr %pool, i64 %share) #0 {
entry:
  %job.p = getelementptr %block, ptr %pool, i32 0, i32 10
  %job = load ptr, ptr %job.p
  %count.p = getelementptr %job, ptr %job, i32 0, i32 1
  %bases.p = getelementptr %job, ptr %job, i32 0, i32 2
  %shares.p = getelementptr %job, ptr %job, i32 0, i32 3
  %rows = load ptr, ptr %job
  %count = load i64, ptr %count.p
  %bases = load ptr, ptr %bases.p
  %shares = load i64, ptr %shares.p
  %share.next = add i64 %share, 1
  %parts = mul i64 %shares, $parts
  %pieces = mul i64 %shares, $pieces
  %others = sub i64 %shares, 1
  %idle = icmp sge i64 %share, %shares
  br i1 %idle, label %done, label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %over ], [ %i.next, %wait ], [ %i.next, %checked ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %row, label %done
row:
  %entry.address = getelementptr [4 x ptr], ptr %rows, i64 %i
  %function = load ptr, ptr %entry.address
  %arguments.address = getelementptr ptr, ptr %entry.address, i64 1
  %arguments = load ptr, ptr %arguments.address
  %flags.address = getelementptr i64, ptr %entry.address, i64 2
  %flags = load i64, ptr %flags.address
  %i.next = add i64 %i, 1
  %deal = and i64 %flags, $deal
  %dealt = icmp ne i64 %deal, 0
  br i1 %dealt, label %take, label %own
own:
  call void %function(ptr %bases, ptr %arguments, i64 %share, i64 %share.next, i64 %shares)
  br label %over
take:
  %tickets = getelementptr i64, ptr %entry.address, i64 3
  %ticket = atomicrmw add ptr %tickets, i64 1 monotonic
  %some = icmp slt i64 %ticket, %pieces
  br i1 %some, label %piece, label %none
piece:
  %round = udiv i64 %ticket, %shares
  %place = urem i64 %ticket, %shares
  %half = lshr i64 $half, %round
  %size = call i64 @llvm.umax.i64(i64 %half, i64 1)
  %left = lshr i64 %parts, %round
  %begin = sub i64 %parts, %left
  %ahead = mul i64 %place, %size
  %first = add i64 %begin, %ahead
  %last = add i64 %first, %size
  call void %function(ptr %bases, ptr %arguments, i64 %first, i64 %last, i64 %parts)
  br label %take
none:
  ; Every thread comes once in vain: the last one makes the row ready for the next replay.
  %vain = add i64 %pieces, %others
  %final = icmp eq i64 %ticket, %vain
  br i1 %final, label %renew, label %over
renew:
  store atomic i64 0, ptr %tickets monotonic, align 8
  br label %over
over:
  %meet.flags = and i64 %flags, $meet
  %meet = icmp ne i64 %meet.flags, 0
  br i1 %meet, label %wait, label %head
wait:
  call void @barrier(ptr %pool, i64 %shares)
  %check.flag = and i64 %flags, $check
  %check = icmp ne i64 %check.flag, 0
  br i1 %check, label %checked, label %head
checked:
  %wrong = call i1 @failed(ptr %bases, i64 %parts)
  br i1 %wrong, label %stopped, label %head
stopped:
  ret i32 1
done:
  ret i32 0
}

define void @run_worker(ptr %pool, i64 %share, i32 %seen) #0 {
entry:
  %finished.p = getelementptr %block, ptr %pool, i32 0, i32 2
  %asleep.p = getelementptr %block, ptr %pool, i32 0, i32 4
  %stop.p = getelementptr %block, ptr %pool, i32 0, i32 11
  br label %wait
wait:
  %known = phi i32 [ %seen, %entry ], [ %known, %pause ], [ %known, %sleep ], [ %now, %work ]
  ; A new worker goes to sleep at once: it was started by a thread whose core is taken, and the
  ; first job wakes it elsewhere.
  %turns = phi i32 [ $idle_spin, %entry ], [ %turns.next, %pause ], [ 0, %sleep ], [ 0, %work ]
  %now = load atomic i32, ptr %pool acquire, align 4
  %called = icmp ne i32 %now, %known
  br i1 %called, label %wake, label %idle
idle:
  %turns.next = add i32 %turns, 1
  %tired = icmp sge i32 %turns.next, $idle_spin
  br i1 %tired, label %sleep, label %pause
pause:
  $pause
  br label %wait
sleep:
  ; Counted before @sleep compares the generation, and the caller raises the generation before
  ; it looks at the count: one of the two notices the other.
  %ignored = atomicrmw add ptr %asleep.p, i32 1 seq_cst
  call void @sleep(ptr %pool, i32 %known)
  call void @leave_caller(ptr %pool)
  %ignored.too = atomicrmw sub ptr %asleep.p, i32 1 seq_cst
  br label %wait
wake:
  %stop = load atomic i32, ptr %stop.p acquire, align 4
  %stopping = icmp ne i32 %stop, 0
  br i1 %stopping, label %done, label %work
work:
  %ignored.three = call i32 @run_share(ptr %pool, i64 %share)
  %count = atomicrmw add ptr %finished.p, i32 1 release
  br label %wait
done:
  ret void
}

define internal void @call_workers(ptr %pool) #0 {
entry:
  %asleep.p = getelementptr %block, ptr %pool, i32 0, i32 4
  %before = atomicrmw add ptr %pool, i32 1 seq_cst
  %asleep = load atomic i32, ptr %asleep.p seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %done
wake:
  call void @note_caller(ptr %pool)
  call void @wake(ptr %pool)
  br label %done
done:
  ret void
}

define i32 @run_together(ptr %pool, ptr %job, i32 %workers) #0 {
entry:
  %finished.p = getelementptr %block, ptr %pool, i32 0, i32 2
  %job.p = getelementptr %block, ptr %pool, i32 0, i32 10
  store ptr %job, ptr %job.p
  store atomic i32 0, ptr %finished.p monotonic, align 4
  call void @call_workers(ptr %pool)
  %stopped = call i32 @run_share(ptr %pool, i64 0)
  br label %wait
wait:
  %turns = phi i32 [ 0, %entry ], [ %turns.next, %again ]
  %finished = load atomic i32, ptr %finished.p acquire, align 4
  %all = icmp eq i32 %finished, %workers
  br i1 %all, label %done, label %again
again:
  %turns.next = call i32 @relax(i32 %turns)
  br label %wait
done:
  ret i32 %stopped
}

define void @stop_workers(ptr %pool) #0 {
  %stop.p = getelementptr %block, ptr %pool, i32 0, i32 11
  store atomic i32 1, ptr %stop.p release, align 4
  call void @call_workers(ptr %pool)
  ret void
}
attributes #0 = { nounwind }
"""
)

# Two ways to sleep. @sleep returns at the latest when the generation is no longer the one known and
# @wake has been called since; it may return before. @prepare is called once, before the others.
# A worker that slept last on the core where the caller runs now may be woken there although others
# are free, and the system moves one of the two away only some milliseconds later. Such a worker
# leaves the caller's core by itself (@leave_caller): for a moment that core is not one of its own.
_FUTEX = """
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @note_caller(ptr %pool) #0 {
  %core = call i32 @sched_getcpu()
  %core.p = getelementptr %block, ptr %pool, i32 0, i32 12
  store atomic i32 %core, ptr %core.p monotonic, align 4
  ret void
}

define void @leave_caller(ptr %pool) #0 {
entry:
  %others = alloca [16 x i64]  ; a bit for each core, as the system's functions have them
  %all = alloca [16 x i64]
  %core = call i32 @sched_getcpu()
  %core.p = getelementptr %block, ptr %pool, i32 0, i32 12
  %taken = load atomic i32, ptr %core.p monotonic, align 4
  %together = icmp eq i32 %core, %taken
  %known = icmp ult i32 %core, 1024
  %leave = and i1 %together, %known
  br i1 %leave, label %look, label %done
look:
  %got.others = call i32 @sched_getaffinity(i32 0, i64 128, ptr %others)
  %got.all = call i32 @sched_getaffinity(i32 0, i64 128, ptr %all)
  %trouble = or i32 %got.others, %got.all
  %fine = icmp eq i32 %trouble, 0
  br i1 %fine, label %move, label %done
move:
  %number = lshr i32 %core, 6
  %shift = and i32 %core, 63
  %place = zext i32 %shift to i64
  %bit = shl i64 1, %place
  %rest = xor i64 %bit, -1
  %word.p = getelementptr i64, ptr %others, i32 %number
  %word = load i64, ptr %word.p
  %cleared = and i64 %word, %rest
  store i64 %cleared, ptr %word.p
  ; It fails where there is no other core, and changes nothing then.
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  %restored = call i32 @sched_setaffinity(i32 0, i64 128, ptr %all)
  br label %done
done:
  ret void
}

define void @prepare(ptr %pool) #0 {
  ret void
}

define void @sleep(ptr %pool, i32 %known) #0 {
  %woken = call i64 (i64, ...) @syscall(
    i64 $number, ptr %pool, i32 128, i32 %known, ptr null, ptr null, i32 0)
  ret void
}

define void @wake(ptr %pool) #0 {
  %woken = call i64 (i64, ...) @syscall(
    i64 $number, ptr %pool, i32 129, i32 2147483647, ptr null, ptr null, i32 0)
  ret void
}
"""

_CONDITION = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define internal void @note_caller(ptr %pool) #0 {
  ret void
}

define void @leave_caller(ptr %pool) #0 {
  ret void
}

define void @prepare(ptr %pool) #0 {
  %mutex = getelementptr %block, ptr %pool, i32 0, i32 14
  %condition = getelementptr %block, ptr %pool, i32 0, i32 15
  %ignored = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %ignored.too = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}

define void @sleep(ptr %pool, i32 %known) #0 {
entry:
  %mutex = getelementptr %block, ptr %pool, i32 0, i32 14
  %condition = getelementptr %block, ptr %pool, i32 0, i32 15
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %now = load atomic i32, ptr %pool seq_cst, align 4
  %called = icmp ne i32 %now, %known
  br i1 %called, label %done, label %wait
wait:
  %woken = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %done
done:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define void @wake(ptr %pool) #0 {
  ; A worker that has compared the generation holds the mutex until it waits.
  %mutex = getelementptr %block, ptr %pool, i32 0, i32 14
  %condition = getelementptr %block, ptr %pool, i32 0, i32 15
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}
"""

# By machine, as systems spell them: the number of Linux's futex call, and the instruction that
# tells the processor that we are spinning.
_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
_X86_PAUSE, _ARM_PAUSE = "call void @llvm.x86.sse2.pause()", "call void @llvm.aarch64.hint(i32 1)"
_PAUSES = {"x86_64": _X86_PAUSE, "amd64": _X86_PAUSE, "aarch64": _ARM_PAUSE, "arm64": _ARM_PAUSE}


def has_futex() -> bool:
    """Whether workers can sleep by a futex here."""
    return sys.platform == "linux" and platform.machine() in _FUTEX_NUMBERS


def _filled(text: str, **values: str | int) -> str:
    """A text with values in the places that name them: `$check`."""
    for name, value in values.items():
        text = text.replace(f"${name}", str(value))
    return text


def alone_text() -> str:
    """The code of one thread that runs all shares."""
    return _filled(_ALONE, check=CHECK)


def together_text() -> str:
    """The code of the workers for this machine."""
    machine = platform.machine()
    futex = _filled(_FUTEX, number=_FUTEX_NUMBERS[machine]) if has_futex() else ""
    return _filled(
        _TOGETHER,
        sleeping=futex or _CONDITION,
        pause=_PAUSES.get(machine, ""),
        idle_spin=IDLE_SPIN,
        barrier_spin=BARRIER_SPIN,
        meet=MEET,
        deal=DEAL,
        check=CHECK,
        pieces=ROUNDS,
        parts=PARTS,
        half=PARTS // 2,
    )
