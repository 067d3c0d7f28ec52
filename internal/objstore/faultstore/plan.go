package faultstore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrInjected is the default error of a fault. ErrCrashed is the result of every operation from a crash on.
var (
	ErrInjected = errors.New("injected fault")
	ErrCrashed  = errors.New("store crashed")
)

// Kind says what an operation does.
type Kind uint8

// The operations of a store and of its writers. The reading ones are numbered only if the Plan counts them.
const (
	PutIfAbsent Kind = iota + 1
	Put
	Create
	Write
	Commit
	Abort
	Delete
	RemoveAll
	Rename
	MakeDir
	SyncDir
	ReadAt
	ReadAll
	Stat
	List
)

// String returns the operation's name.
func (k Kind) String() string {
	names := [...]string{
		PutIfAbsent: "PutIfAbsent", Put: "Put", Create: "Create", Write: "Write", Commit: "Commit", Abort: "Abort",
		Delete: "Delete", RemoveAll: "RemoveAll", Rename: "Rename", MakeDir: "MakeDir", SyncDir: "SyncDir",
		ReadAt: "ReadAt", ReadAll: "ReadAll", Stat: "Stat", List: "List",
	}
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// reads reports whether the operation leaves the store as it is.
func (k Kind) reads() bool { return k >= ReadAt }

// Op is one numbered operation.
type Op struct {
	Number int64 // from 1
	Kind   Kind
	Name   string // object or directory
	Target string // of Rename
	Bytes  int    // written or asked for
}

// String formats the operation for a failure message.
func (o Op) String() string {
	if o.Kind == Rename {
		return fmt.Sprintf("#%d %s %s -> %s", o.Number, o.Kind, o.Name, o.Target)
	}
	return fmt.Sprintf("#%d %s %s (%d bytes)", o.Number, o.Kind, o.Name, o.Bytes)
}

// Action says what happens to an operation that a fault hits.
type Action uint8

const (
	// Fail returns the fault's error and does nothing.
	Fail Action = iota + 1
	// Ambiguous performs the operation and returns the fault's error although it may have succeeded.
	Ambiguous
	// Delay waits for the fault's duration, or until the context ends, and then performs the operation.
	Delay
	// CrashBefore does nothing; this and every later operation returns ErrCrashed.
	CrashBefore
	// CrashAfter performs the operation; this and every later operation returns ErrCrashed.
	CrashAfter
)

// Fault is what happens to one operation, or to all from one on.
type Fault struct {
	At     int64 // number of the operation; 0 = every one
	Action Action
	Err    error         // of Fail and Ambiguous; nil = ErrInjected
	Wait   time.Duration // of Delay
}

// Plan says which operations are numbered and what happens to them. The zero Plan numbers the operations
// that change the store, without Write and Abort of writers, and lets all of them through.
type Plan struct {
	Faults []Fault
	// CountReads also numbers ReadAt, ReadAll, Stat and List.
	CountReads bool
	// CountWrites also numbers Write and Abort of writers, which change nothing that anyone sees.
	CountWrites bool
	// Match, if not nil, restricts the numbering to the operations it accepts. Number is not set yet.
	Match func(Op) bool
	// Sleep performs the waiting of Delay; nil = a timer. It returns the context's error if that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
}

// FailAt is the plan in which operation n fails with err (nil = ErrInjected) and has no effect.
func FailAt(n int64, err error) Plan {
	return Plan{Faults: []Fault{{At: n, Action: Fail, Err: err}}}
}

// AmbiguousAt is the plan in which operation n takes effect but returns err (nil = ErrInjected).
func AmbiguousAt(n int64, err error) Plan {
	return Plan{Faults: []Fault{{At: n, Action: Ambiguous, Err: err}}}
}

// CrashAt is the plan in which the store crashes at operation n, which still takes effect if performed is
// set.
func CrashAt(n int64, performed bool) Plan {
	action := CrashBefore
	if performed {
		action = CrashAfter
	}
	return Plan{Faults: []Fault{{At: n, Action: action}}}
}

// numbered reports whether the plan numbers an operation.
func (p *Plan) numbered(op Op) bool {
	switch {
	case op.Kind.reads() && !p.CountReads:
		return false
	case (op.Kind == Write || op.Kind == Abort) && !p.CountWrites:
		return false
	}
	return p.Match == nil || p.Match(op)
}

// fault returns what happens to operation n, an empty Fault if nothing.
func (p *Plan) fault(n int64) Fault {
	for _, f := range p.Faults {
		if f.At == n || f.At == 0 {
			if f.Err == nil {
				f.Err = ErrInjected
			}
			return f
		}
	}
	return Fault{}
}

// wait sleeps as the plan says.
func (p *Plan) wait(ctx context.Context, d time.Duration) error {
	if p.Sleep != nil {
		return p.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
