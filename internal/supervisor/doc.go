// Package supervisor keeps the services of the box running. It is the heart of
// PID 1: it never blocks on a service, and no service can end it (INV 1).
//
// # States
//
//	waiting   wanted; a dependency is not there yet
//	idle      on demand: nothing waits at its socket; not started by Boot: nobody asked for it
//	starting  the process runs and has not said READY=1; a oneshot stays here until it ends
//	running   ready
//	backoff   it ended, and will be started again by itself
//	stopping  asked to end, or it said STOPPING=1
//	stopped   not wanted
//	failed    it is not started again until told so; its last words are kept
//	done      a oneshot that ended with status 0
//
// # Dependencies
//
// Needs names services that must be running, idle or done. After names services that
// must have had their chance: running, done, or ended in some other way once,
// or held up by a dependency of their own that has had its chance. Both are looked
// at before each start, also before a restart; they are not looked at again
// while the service runs. So a service that ends takes nobody down, and one
// that is stopped holds up those that need it only when these are started next.
// Whatever has what it depends on is started at once, thus in parallel, in the
// order of the table.
//
// # Restart
//
// A service that ends unasked, with whatever status, is started again after
// 1 s; the delay doubles up to 60 s, and is 1 s again after 5 minutes of being ready.
// Five ends in a row, each within 10 s of its start, or status 125 once, are
// "failed". An essential service never is: it is tried every 60 s for ever. The
// console (TTY) has its delay and count reset by any session of 2 s, since
// logging out is no fault. A oneshot that ends with another status than 0 is
// tried again by the same rules. Start, Restart and Stop clear delay and count.
//
// A service that is not ready, or a oneshot that is not done, within
// ReadyTimeout is killed, and so is one that misses its Watchdog (with SIGQUIT
// first, for the stacks); both count as ends.
//
// # On demand
//
// A service with a Socket has that from the time at which it could be started,
// and a process only when something waits there. An end with status 0 is no
// fault then; after any other end, back-off comes before idle, and what waits
// goes on waiting. Start and Restart leave it idle. Stop closes the socket.
//
// # Stop
//
// SIGTERM to the process group (SIGHUP as well for the console), and SIGKILL to
// the group after StopTimeout. Package reaper kills what is left of the group
// when the leader ends; the log pipe is closed then, also for a descendant that
// went to another session. StopAll does that to every service as soon as nobody
// who depends on it runs any more.
//
// # Hold
//
// Hold stops every service but those that are named, and refuses to start
// others until Release, which starts again what was wanted before. A oneshot is
// left alone, and so is what was stopped or had failed before: it is so
// afterwards, too.
//
// # Descriptors
//
// What a service stores stays in PID 1 through ends, back-off, failure and
// Restart, until the service removes it: a listening socket refuses nobody
// meanwhile. Stop and StopAll close it when the process has ended: nobody is
// about to serve it, and a client must be refused instead of waiting for ever.
//
// # Goroutines
//
// The state machine has none: it is a mutex, entered by the reaper, the reading
// loop, timers and callers. One loop (epoll) reads the log pipes and the
// notification sockets of all services. See loop.go for what that saves.
package supervisor
