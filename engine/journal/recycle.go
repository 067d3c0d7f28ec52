package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/logfile"
)

// roll begins a new segment with room for size bytes, in a recycled file if one is large enough.
func (w *Writer) roll(size int64, first J) error {
	// Why: records may be missing only at the end of the newest segment.
	if err := w.sync(); err != nil {
		return err
	}
	want := w.o.SegmentBytes
	if w.cur == nil {
		want = w.o.FirstBytes
	}
	want = max(want, blockBytes+size)
	s := &segment{id: w.nextID, first: first, last: first - 1}
	for i, slot := range w.free {
		f, err := w.dir.Open(slot)
		if err != nil {
			return fmt.Errorf("recycle journal segment: %w", err)
		}
		if f.Size() >= want {
			s.file, s.slot = f, slot
			w.free = slices.Delete(w.free, i, i+1)
			break
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if s.file == nil {
		f, err := w.create(want, blockBytes+size)
		if err != nil {
			return fmt.Errorf("new journal segment: %w", err)
		}
		s.file, s.slot = f, w.nextNo
		w.nextNo++
	}
	if err := s.writeHeader(); err != nil {
		return errors.Join(err, s.file.Close())
	}
	w.off = blockBytes
	w.nextID++
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cur = s
	w.kept = append(w.kept, s)
	return nil
}

// smallSegmentBytes is the size of a segment where the disk has no room for a whole one.
const smallSegmentBytes = 1 << 20

// create makes the file of a segment, a small one where the disk has no room for two whole ones, but at least of the size
// that is needed. Why: on a nearly full disk commits go on, and leave room for what frees some.
func (w *Writer) create(want, need int64) (*logfile.File, error) {
	f, err := w.dir.Create(w.nextNo, want, want)
	for _, smaller := range []int64{max(smallSegmentBytes, need), need} {
		if errors.Is(err, errs.ErrNoSpace) && smaller <= want {
			f, err = w.dir.Create(w.nextNo, smaller, 0)
		}
	}
	return f, err
}

// grow makes the current segment longer, by as much as a segment has or, where the disk has no room for it, less.
func (w *Writer) grow(need int64) error {
	err := w.cur.file.Extend(max(w.o.SegmentBytes, need), w.o.SegmentBytes)
	for _, smaller := range []int64{max(smallSegmentBytes, need), need} {
		if errors.Is(err, errs.ErrNoSpace) {
			err = w.cur.file.Extend(smaller, 0)
		}
	}
	if errors.Is(err, errs.ErrLimit) {
		return nil // a new one is begun
	}
	return err
}

// Hold makes the newest segment grow where a new one would be begun, so that no other file changes, or ends that. A segment
// of 2 GiB grows no more.
func (w *Writer) Hold(on bool) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.held.Store(on)
}

// Low reports that the current segment is half full and no file waits to follow it.
func (w *Writer) Low() bool { return w.low.Load() && !w.held.Load() }

// Prepare makes the file of the next segment, so that no append has to wait for it. Nothing is done if one waits
// already. errs.ErrNoSpace: the journal goes on in what it has.
func (w *Writer) Prepare(context.Context) error {
	w.turn <- struct{}{}
	have, slot := len(w.free) > 0, w.nextNo
	if !have {
		w.nextNo++
	}
	<-w.turn
	if have {
		w.low.Store(false)
		return nil
	}
	f, err := w.dir.Create(slot, w.o.SegmentBytes, w.o.SegmentBytes)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("prepare journal segment: %w", err)
	}
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.free = append(w.free, slot)
	w.low.Store(false)
	return nil
}

// Release says durably, by a start record, that records before from are no longer needed, and recycles the segments
// that hold only such. counters and ends go into the start record, whose number is returned.
func (w *Writer) Release(ctx context.Context, from J, counters []Counter, ends []End) (J, error) {
	if from == 0 || from > w.Next() {
		return 0, fmt.Errorf("release journal up to %d, next is %d: %w", from, w.Next(), errs.ErrInvalid)
	}
	j, err := w.Append(ctx, &Record{Kind: Start, From: from, Counters: counters, Ends: ends})
	if err != nil {
		return 0, err
	}
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.mu.Lock()
	w.from = max(w.from, from)
	w.mu.Unlock()
	return j, w.releaseBefore(from)
}

// From returns the first record still needed according to the newest start record, 0 if there is none.
func (w *Writer) From() J {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.from
}

// releaseBefore frees the files of segments all of whose records are before from. The caller holds turn.
func (w *Writer) releaseBefore(from J) error {
	w.mu.Lock()
	n := w.releasableLocked(from)
	gone := w.kept[:n]
	w.kept = slices.Clone(w.kept[n:])
	w.mu.Unlock()
	var err error
	for _, s := range gone {
		// Why the file is left as it is: its header keeps it a segment, and its records are before the start
		// record, until a new header makes it another one.
		err = errors.Join(err, s.file.Close())
		if !s.old && s.file.Size() == w.o.SegmentBytes && len(w.free) < freeKept {
			w.free = append(w.free, s.slot)
		} else {
			err = errors.Join(err, w.dir.Remove(s.slot))
		}
	}
	return err
}

// releasableLocked counts the oldest segments that hold nothing from the record on. The caller holds mu.
func (w *Writer) releasableLocked(from J) int {
	n := 0
	for n < len(w.kept) && w.kept[n] != w.cur && w.kept[n].last < from {
		n++
	}
	return n
}

// Releasable reports whether Release(from) would free at least one file.
func (w *Writer) Releasable(from J) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.releasableLocked(from) > 0
}

// Bytes returns the size of the segments in use.
func (w *Writer) Bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := int64(0)
	for _, s := range w.kept {
		n += s.file.Size()
	}
	return n
}
