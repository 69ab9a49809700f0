"""The code of the pool of threads, as LLVM IR: how a job is run, dealt and waited for.

`pool.py` says what a job is, and starts the threads that run this.
"""

from __future__ import annotations

import functools
import platform
import sys

IDLE_SPIN = 40000  # pauses, about a millisecond, before a worker sleeps: eager ops come so fast
PATIENCE = 64  # pauses, some microseconds, before a thread takes the share of one that is late
BARRIER_SPIN = 1000  # pauses before a thread that waits for others lets the system run them
MOST_SHARES = 1024  # of a job; one thread runs those of more
BLOCK_BYTES = 4 * 64 + 2 * 128 + 64 * MOST_SHARES  # what threads of a pool have in common

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
  i64, i64, ptr, i32, [36 x i8], ; 2: phase; 3: its first row; 4: the job; 5: whether it failed
  i64, [56 x i8],              ; 7: shares of the phase that are done
  i32, i32, i32, [52 x i8],    ; 9: workers asleep; 10: stop; 11: the core of the last caller
  [128 x i8], [128 x i8],      ; 13: a mutex; 14: a condition variable; no system has larger ones
  [$most x [8 x i64]]          ; 15: by share, the last phase in which a thread took it
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

; A phase is a word that only grows: a count, the number of shares, and whether it is open. While a
; share of it is taken and not done, the phase stays, and with it the job.
define internal i1 @take(ptr %pool, i64 %phase, i64 %share) #0 {
entry:
  %taken.p = getelementptr %block, ptr %pool, i32 0, i32 15, i64 %share
  %before = load atomic i64, ptr %taken.p monotonic, align 8
  %free = icmp ult i64 %before, %phase
  br i1 %free, label %try, label %lost
try:
  %pair = cmpxchg ptr %taken.p, i64 %before, i64 %phase acq_rel monotonic, align 8
  %won = extractvalue { i64, i1 } %pair, 1
  ret i1 %won
lost:
  ret i1 false
}

define internal void @open_phase(ptr %pool, i64 %shares, i64 %row, i64 %closed) #0 {
  %phase.p = getelementptr %block, ptr %pool, i32 0, i32 2
  %row.p = getelementptr %block, ptr %pool, i32 0, i32 3
  store i64 %row, ptr %row.p
  %before = load atomic i64, ptr %phase.p monotonic, align 8
  %count = lshr i64 %before, 16
  %next = add i64 %count, 1
  %high = shl i64 %next, 16
  %middle = shl i64 %shares, 1
  %low = or i64 %middle, 1
  %word = or i64 %high, %low
  %phase = sub i64 %word, %closed
  store atomic i64 %phase, ptr %phase.p release, align 8
  ret void
}

; Do one share of the rows up to the next meeting. The last thread that does so opens the next
; phase: then nothing of the job is looked at any more.
define internal void @run_share(ptr %pool, i64 %share, i64 %shares) #0 {
entry:
  %row.p = getelementptr %block, ptr %pool, i32 0, i32 3
  %job.p = getelementptr %block, ptr %pool, i32 0, i32 4
  %failed.p = getelementptr %block, ptr %pool, i32 0, i32 5
  %done.p = getelementptr %block, ptr %pool, i32 0, i32 7
  %first.row = load i64, ptr %row.p
  %job = load ptr, ptr %job.p
  %count.p = getelementptr %job, ptr %job, i32 0, i32 1
  %bases.p = getelementptr %job, ptr %job, i32 0, i32 2
  %rows = load ptr, ptr %job
  %count = load i64, ptr %count.p
  %bases = load ptr, ptr %bases.p
  %share.next = add i64 %share, 1
  %parts = mul i64 %shares, $parts
  %pieces = mul i64 %shares, $pieces
  %others = sub i64 %shares, 1
  br label %row
row:
  %i = phi i64 [ %first.row, %entry ], [ %i.next, %over ]
  %entry.address = getelementptr [4 x ptr], ptr %rows, i64 %i
  %function = load ptr, ptr %entry.address
  %arguments.address = getelementptr ptr, ptr %entry.address, i64 1
  %arguments = load ptr, ptr %arguments.address
  %flags.address = getelementptr i64, ptr %entry.address, i64 2
  %flags = load i64, ptr %flags.address
  %i.next = add i64 %i, 1
  %deal = and i64 %flags, $deal
  %dealt = icmp ne i64 %deal, 0
  br i1 %dealt, label %ask, label %own
own:
  call void %function(ptr %bases, ptr %arguments, i64 %share, i64 %share.next, i64 %shares)
  br label %over
ask:
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
  br label %ask
none:
  ; For every share a thread comes once in vain: the last one makes the row ready for the next
  ; replay.
  %vain = add i64 %pieces, %others
  %final = icmp eq i64 %ticket, %vain
  br i1 %final, label %renew, label %over
renew:
  store atomic i64 0, ptr %tickets monotonic, align 8
  br label %over
over:
  %end = icmp eq i64 %i.next, %count
  %meet.flags = and i64 %flags, $meet
  %meet = icmp ne i64 %meet.flags, 0
  %met = or i1 %end, %meet
  br i1 %met, label %count.done, label %row
count.done:
  %before = atomicrmw add ptr %done.p, i64 1 acq_rel
  %last.one = icmp eq i64 %before, %others
  br i1 %last.one, label %all, label %out
all:
  store atomic i64 0, ptr %done.p monotonic, align 8
  %check.flag = and i64 %flags, $check
  %check = icmp ne i64 %check.flag, 0
  br i1 %check, label %checked, label %following
checked:
  %wrong = call i1 @failed(ptr %bases, i64 %parts)
  br i1 %wrong, label %stopped, label %following
stopped:
  store i32 1, ptr %failed.p
  br label %following
following:
  %stop = phi i1 [ false, %all ], [ false, %checked ], [ true, %stopped ]
  %close = or i1 %end, %stop
  %closed = zext i1 %close to i64
  call void @open_phase(ptr %pool, i64 %shares, i64 %i.next, i64 %closed)
  br label %out
out:
  ret void
}

; Do shares of the job until it is done: in each phase the own one, if nobody has it, and those that
; no thread has taken after a while.
define internal void @take_part(ptr %pool, i64 %own) #0 {
entry:
  %phase.p = getelementptr %block, ptr %pool, i32 0, i32 2
  br label %begin
begin:
  ; A thread that has found another one late does not wait for it in the next phase.
  %patience = phi i32 [ $patience, %entry ], [ $patience, %wait ], [ 0, %stolen ]
  %phase = load atomic i64, ptr %phase.p acquire, align 8
  %low = and i64 %phase, 65535
  %shares = lshr i64 %low, 1
  %open.bit = and i64 %phase, 1
  %open = icmp ne i64 %open.bit, 0
  %needed = icmp ult i64 %own, %shares
  %going = and i1 %open, %needed
  br i1 %going, label %first, label %done
first:
  %mine = call i1 @take(ptr %pool, i64 %phase, i64 %own)
  br i1 %mine, label %work, label %expect
work:
  call void @run_share(ptr %pool, i64 %own, i64 %shares)
  br label %expect
expect:
  %spins = phi i32 [ 0, %first ], [ 0, %work ], [ %spins.next, %spin ]
  %now = load atomic i64, ptr %phase.p acquire, align 8
  %same = icmp eq i64 %now, %phase
  br i1 %same, label %is.long, label %wait
is.long:
  %long = icmp sge i32 %spins, %patience
  br i1 %long, label %look, label %spin
spin:
  $pause
  %spins.next = add i32 %spins, 1
  br label %expect
look:
  %s = phi i64 [ 0, %is.long ], [ %s.next, %next ]
  %more = icmp ult i64 %s, %shares
  br i1 %more, label %try, label %wait
try:
  %s.next = add i64 %s, 1
  %got = call i1 @take(ptr %pool, i64 %phase, i64 %s)
  br i1 %got, label %stolen, label %next
next:
  br label %look
stolen:
  call void @run_share(ptr %pool, i64 %s, i64 %shares)
  br label %begin
wait:
  %turns = phi i32 [ 0, %expect ], [ 0, %look ], [ %turns.next, %again ]
  %then = load atomic i64, ptr %phase.p acquire, align 8
  %waiting = icmp eq i64 %then, %phase
  br i1 %waiting, label %again, label %begin
again:
  %turns.next = call i32 @relax(i32 %turns)
  br label %wait
done:
  ret void
}

define void @run_worker(ptr %pool, i64 %share, i32 %seen) #0 {
entry:
  %asleep.p = getelementptr %block, ptr %pool, i32 0, i32 9
  %stop.p = getelementptr %block, ptr %pool, i32 0, i32 10
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
  call void @take_part(ptr %pool, i64 %share)
  br label %wait
done:
  ret void
}

define internal void @call_workers(ptr %pool) #0 {
entry:
  %asleep.p = getelementptr %block, ptr %pool, i32 0, i32 9
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

define i32 @run_together(ptr %pool, ptr %job) #0 {
entry:
  %job.p = getelementptr %block, ptr %pool, i32 0, i32 4
  %failed.p = getelementptr %block, ptr %pool, i32 0, i32 5
  %shares.p = getelementptr %job, ptr %job, i32 0, i32 3
  %shares = load i64, ptr %shares.p
  store ptr %job, ptr %job.p
  store i32 0, ptr %failed.p
  call void @open_phase(ptr %pool, i64 %shares, i64 0, i64 0)
  call void @call_workers(ptr %pool)
  call void @take_part(ptr %pool, i64 0)
  %failed = load i32, ptr %failed.p
  ret i32 %failed
}

define void @stop_workers(ptr %pool) #0 {
  %stop.p = getelementptr %block, ptr %pool, i32 0, i32 10
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
  %core.p = getelementptr %block, ptr %pool, i32 0, i32 11
  store atomic i32 %core, ptr %core.p monotonic, align 4
  ret void
}

define void @leave_caller(ptr %pool) #0 {
entry:
  %others = alloca [16 x i64]  ; a bit for each core, as the system's functions have them
  %all = alloca [16 x i64]
  %core = call i32 @sched_getcpu()
  %core.p = getelementptr %block, ptr %pool, i32 0, i32 11
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
  %mutex = getelementptr %block, ptr %pool, i32 0, i32 13
  %condition = getelementptr %block, ptr %pool, i32 0, i32 14
  %ignored = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %ignored.too = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}

define void @sleep(ptr %pool, i32 %known) #0 {
entry:
  %mutex = getelementptr %block, ptr %pool, i32 0, i32 13
  %condition = getelementptr %block, ptr %pool, i32 0, i32 14
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
  %mutex = getelementptr %block, ptr %pool, i32 0, i32 13
  %condition = getelementptr %block, ptr %pool, i32 0, i32 14
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


@functools.cache
def alone_text() -> str:
    """The code of one thread that runs all shares."""
    return _filled(_ALONE, check=CHECK)


def together_text() -> str:
    """The code of the workers for this machine."""
    return _together_text(has_futex(), IDLE_SPIN)


@functools.cache
def _together_text(sleeps_by_futex: bool, idle_spin: int) -> str:
    machine = platform.machine()
    futex = _filled(_FUTEX, number=_FUTEX_NUMBERS[machine]) if sleeps_by_futex else ""
    return _filled(
        _TOGETHER,
        sleeping=futex or _CONDITION,
        pause=_PAUSES.get(machine, ""),
        idle_spin=idle_spin,
        barrier_spin=BARRIER_SPIN,
        patience=PATIENCE,
        most=MOST_SHARES,
        meet=MEET,
        deal=DEAL,
        check=CHECK,
        pieces=ROUNDS,
        parts=PARTS,
        half=PARTS // 2,
    )
