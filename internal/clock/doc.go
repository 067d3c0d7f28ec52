// Package clock is the seam through which every other package learns the time.
//
// Purpose: one interface with two implementations, the operating system's clock and one that a test moves
// by hand. Nothing else in the module reads the wall clock.
//
// Place in the dataflow: lowest layer; it imports only the standard library and is handed down in
// Components.
//
// Invariants:
//
//	I1: a Manual clock moves only when it is told to.
//	I2: both clocks may be read from any number of goroutines.
//
// Does not know: timers, deadlines, who asks.
package clock
