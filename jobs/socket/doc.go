// Package socket lets other processes of the same user reach a daemon of jobs: HTTP with
// JSON over a socket file. [Serve] answers, and [Dial] gives a [Client] whose methods are those of
// the daemon.
//
// Only the user may use the socket: the file has mode 0600 in a folder of mode 0700, both sides
// check who owns the other end where the system says so, and a client refuses a folder that others can write
// to. Headers, bodies, connections and their times are bounded.
//
// A client and a daemon of different programs would not mean the same by a config. So both
// say which [Program] they are, and a client refuses another one for all but looking and ending it.
package socket
