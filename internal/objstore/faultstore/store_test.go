package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/internal/objstore/faultstore"
)

// changes is every kind of change once, in this order.
func changes(st objstore.Store) []error {
	ctx := context.Background()
	var results []error
	do := func(err error) { results = append(results, err) }
	do(st.PutIfAbsent(ctx, "d/1", []byte("one")))
	do(st.Put(ctx, "d/hint", []byte("hint")))
	w, err := st.Create(ctx, "d/2")
	do(err)
	if err == nil {
		_, writeErr := io.WriteString(w, "two")
		do(errors.Join(writeErr, w.Commit(ctx)))
	} else {
		do(err)
	}
	do(st.Rename(ctx, "d", "e"))
	do(st.MakeDir(ctx, "f"))
	do(st.Delete(ctx, "e/1"))
	do(st.RemoveAll(ctx, "e"))
	return results
}

const numberedChanges = 8

func exists(t *testing.T, st objstore.Store, name string) bool {
	t.Helper()
	_, err := st.Stat(t.Context(), name)
	if err != nil && !errors.Is(err, errs.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func TestNumbering(t *testing.T) {
	st := faultstore.New(objstore.NewMem(), faultstore.Plan{})
	for i, err := range changes(st) {
		if err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if st.Count() != numberedChanges || len(st.Trace()) != numberedChanges {
		t.Errorf("count %d, trace:\n%s", st.Count(), st.TraceString())
	}
	if got := st.Trace()[4].String(); got != "#5 Rename d -> e" {
		t.Errorf("got %q", got)
	}
	if got := st.Trace()[0].String(); got != "#1 PutIfAbsent d/1 (3 bytes)" {
		t.Errorf("got %q", got)
	}

	st.Reset(faultstore.Plan{CountReads: true, CountWrites: true})
	changes(st)
	exists(t, st, "x")
	if err := st.List(t.Context(), "", func(objstore.Info) error { return nil }); err != nil {
		t.Error(err)
	}
	if got, want := st.Count(), int64(numberedChanges+1+2); got != want {
		t.Errorf("with writes and reads: %d, want %d", got, want)
	}

	st.Reset(faultstore.Plan{Match: func(op faultstore.Op) bool { return op.Kind == faultstore.Delete }})
	changes(st)
	if st.Count() != 1 {
		t.Errorf("with Match: %d", st.Count())
	}
}

func TestFail(t *testing.T) {
	cause := errors.New("my cause")
	for n := int64(1); n <= numberedChanges; n++ {
		st := faultstore.New(objstore.NewMem(), faultstore.FailAt(n, cause))
		if err := changes(st)[n-1]; !errors.Is(err, cause) {
			t.Errorf("fail at %d: %v", n, err)
		}
		if st.Crashed() {
			t.Errorf("fail at %d crashed", n)
		}
	}
	st := faultstore.New(objstore.NewMem(), faultstore.FailAt(1, nil))
	if err := changes(st)[0]; !errors.Is(err, faultstore.ErrInjected) {
		t.Errorf("default error: %v", err)
	}
	if exists(t, st, "d/1") {
		t.Error("a failed put took effect")
	}
	st.Reset(faultstore.FailAt(0, nil)) // all of them
	for i, err := range changes(st) {
		if !errors.Is(err, faultstore.ErrInjected) {
			t.Errorf("change %d: %v", i, err)
		}
	}
}

func TestAmbiguous(t *testing.T) {
	inner := objstore.NewMem()
	st := faultstore.New(inner, faultstore.AmbiguousAt(1, nil))
	err := st.PutIfAbsent(t.Context(), "x", []byte("mine"))
	if !errors.Is(err, faultstore.ErrInjected) || !exists(t, inner, "x") {
		t.Errorf("got %v, exists %t", err, exists(t, inner, "x"))
	}
	if err := st.PutIfAbsent(t.Context(), "x", []byte("mine")); !errors.Is(err, errs.ErrExists) {
		t.Errorf("second attempt: %v", err)
	}
	st.Reset(faultstore.AmbiguousAt(2, nil))
	w, err := st.Create(t.Context(), "y")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); !errors.Is(err, faultstore.ErrInjected) || !exists(t, inner, "y") {
		t.Errorf("commit: %v, exists %t", err, exists(t, inner, "y"))
	}
}

func TestCrash(t *testing.T) {
	for n := int64(1); n <= numberedChanges; n++ {
		for _, performed := range []bool{false, true} {
			inner := objstore.NewMem()
			st := faultstore.New(inner, faultstore.CrashAt(n, performed))
			for i, err := range changes(st) {
				if crashed := int64(i) >= n-1; crashed != errors.Is(err, faultstore.ErrCrashed) {
					t.Errorf("crash at %d, change %d: %v", n, i+1, err)
				}
			}
			_, statErr := st.Stat(t.Context(), "d")
			_, readErr := st.ReadAll(t.Context(), "d", 1)
			listErr := st.List(t.Context(), "", func(objstore.Info) error { return nil })
			for _, err := range []error{statErr, readErr, listErr, st.ReadAt(t.Context(), "d", nil, 0)} {
				if !errors.Is(err, faultstore.ErrCrashed) {
					t.Errorf("crash at %d, read afterwards: %v", n, err)
				}
			}
			if n == 1 && exists(t, inner, "d/1") != performed {
				t.Errorf("performed %t, but exists %t", performed, exists(t, inner, "d/1"))
			}
			if n == 4 && exists(t, inner, "d/2") != performed {
				t.Errorf("commit performed %t, but exists %t", performed, exists(t, inner, "d/2"))
			}
			if !st.Crashed() || st.Count() != n {
				t.Errorf("crash at %d: count %d", n, st.Count())
			}
		}
	}
}

func TestDelay(t *testing.T) {
	var slept time.Duration
	st := faultstore.New(objstore.NewMem(), faultstore.Plan{
		Faults: []faultstore.Fault{{At: 2, Action: faultstore.Delay, Wait: time.Hour}},
		Sleep: func(_ context.Context, d time.Duration) error {
			slept += d
			return nil
		},
	})
	for i, err := range changes(st) {
		if err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if slept != time.Hour {
		t.Errorf("slept %v", slept)
	}
	st.Reset(faultstore.Plan{Faults: []faultstore.Fault{{At: 1, Action: faultstore.Delay, Wait: time.Hour}}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := st.PutIfAbsent(ctx, "late", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if exists(t, st, "late") {
		t.Error("performed although the context ended")
	}
}

// TestFailedWriteSpoilsTheObject: what was not written completely cannot be committed.
func TestFailedWriteSpoilsTheObject(t *testing.T) {
	st := faultstore.New(objstore.NewMem(), faultstore.Plan{
		CountWrites: true, Faults: []faultstore.Fault{{At: 2, Action: faultstore.Fail, Err: errs.ErrNoSpace}},
	})
	w, err := st.Create(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "half"); !errors.Is(err, errs.ErrNoSpace) {
		t.Errorf("write: %v", err)
	}
	if err := w.Commit(t.Context()); !errors.Is(err, errs.ErrNoSpace) {
		t.Errorf("commit: %v", err)
	}
	if exists(t, st, "x") {
		t.Error("the object exists")
	}
}

func ExampleStore() {
	inner := objstore.NewMem()
	for n := int64(1); ; n++ {
		st := faultstore.New(inner, faultstore.CrashAt(n, false))
		_ = st.PutIfAbsent(context.Background(), fmt.Sprintf("run%d/a", n), nil)
		_ = st.PutIfAbsent(context.Background(), fmt.Sprintf("run%d/b", n), nil)
		if !st.Crashed() {
			break
		}
		fmt.Print("crashed at ", strings.TrimSpace(st.TraceString()), "\n\n")
	}
	// Output:
	// crashed at #1 PutIfAbsent run1/a (0 bytes)
	//
	// crashed at #1 PutIfAbsent run2/a (0 bytes)
	// #2 PutIfAbsent run2/b (0 bytes)
}
