// Package crash stops a process at each system call that changes given directories, kills it there, and replays what it
// wrote as a power loss would leave it. It knows nothing of what the process is, but that [Judge] says what a CNI
// configuration directory may hold.
package crash
