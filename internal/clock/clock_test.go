package clock_test

import (
	"fmt"
	"testing"
	"time"

	"lancesql/internal/clock"
)

func TestSystemMovesForward(t *testing.T) {
	c := clock.System()
	a := c.Now()
	b := c.Now()
	if b.Before(a) {
		t.Fatalf("system clock went back: %v then %v", a, b)
	}
}

func TestManualSet(t *testing.T) {
	c := clock.NewManual(time.Unix(100, 0))
	c.Set(time.Unix(7, 0))
	if got := c.Now(); !got.Equal(time.Unix(7, 0)) {
		t.Fatalf("Now after Set: got %v", got)
	}
	if got := c.Advance(-2 * time.Second); !got.Equal(time.Unix(5, 0)) {
		t.Fatalf("Advance backwards: got %v", got)
	}
}

func ExampleManual() {
	c := clock.NewManual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	c.Advance(time.Minute)
	fmt.Println(c.Now().Format(time.TimeOnly))
	// Output: 03:05:05
}
