//go:build !unix

package main

// processorSeconds is 0: the processor time of a process is told on Unix only.
func processorSeconds() float64 { return 0 }
