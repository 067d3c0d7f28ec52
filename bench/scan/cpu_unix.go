//go:build unix

package main

import "syscall"

// processorSeconds is the processor time of this process so far.
func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	s := func(t syscall.Timeval) float64 { return float64(t.Nano()) / 1e9 }
	return s(u.Utime) + s(u.Stime)
}
