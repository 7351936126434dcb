package prompt

import "golang.org/x/sys/unix"

// Wake makes short sleeps of this thread end on time. Before a thread without work
// takes a goroutine over that another thread has just woken, the Go runtime has it sleep
// for 3 µs; Linux adds up to 50 µs to that, unless told otherwise. What the goroutine
// waits for, such as another device, is used that much later. Threads are the runtime's, so
// whoever is about to sleep calls this: it takes a fraction of a microsecond.
func Wake() { _, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, slackNs, 0) }

// slackNs is the longest that a sleep may take too long, in nanoseconds.
const slackNs = 1000
