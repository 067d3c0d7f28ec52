package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"lancesql/internal/errs"
	"lancesql/internal/logfile"
)

// Options configures Open; zero fields mean their defaults.
type Options struct {
	SegmentBytes int64 // preallocated size of a segment (default 64 MiB)
	GroupBytes   int64 // bytes written under one sync (default 16 MiB); a single larger record goes alone
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.GroupBytes <= 0 {
		o.GroupBytes = 16 << 20
	}
	return o
}

// Writer appends records. Append and Release are safe for concurrent use.
//
// mu guards queue, leading, dead, kept and next. Whoever holds turn owns cur, off, free, nextID and nextNo.
type Writer struct {
	dir  *logfile.Dir
	o    Options
	turn chan struct{} // a token: the right to write, held over I/O

	mu      sync.Mutex
	queue   []*waiter
	leading bool
	dead    error      // why nothing is appended any more
	kept    []*segment // ascending id; the last is cur
	next    J          // number of the next record

	cur    *segment
	off    int64 // of the next record in cur
	free   []int // slots whose files may be overwritten
	nextID uint64
	nextNo int // smallest slot number never used
}

type waiter struct {
	r       *Record
	err     error
	done    chan struct{}
	promote chan struct{}
}

// Open scans the journal and visits every record from the first one still needed, in order; then it is ready to
// append after the last. A torn tail is not an error. errs.ErrCorruption if a record in the middle is damaged or
// missing: nothing may be appended then, since what follows it would be lost.
//
// Appending goes on in a fresh segment, so that no block a crash may have left half written is written again.
func Open(_ context.Context, dir *logfile.Dir, o Options, visit func(Record) error) (*Writer, error) {
	segments, free, err := openSegments(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{dir: dir, o: o.withDefaults(), turn: make(chan struct{}, 1), kept: segments, free: free, next: 1, nextID: 1}
	if err := w.recover(visit); err != nil {
		closeAll(segments)
		return nil, err
	}
	return w, nil
}

func (w *Writer) recover(visit func(Record) error) error {
	// Why from the newest back: a released segment's file may have come back after a crash, leaving a gap.
	run := len(w.kept) - 1
	for run > 0 && w.kept[run-1].id+1 == w.kept[run].id {
		run--
	}
	var from J
	for i, s := range w.kept[max(run, 0):] {
		if i > 0 && s.first != w.next {
			return errs.Corrupt(s.file.Name(), 24, "journal segment %d begins at record %d, the one before it ends at %d: the commits between would be lost",
				s.id, s.first, w.next-1)
		}
		err := s.scan(func(r Record) error {
			from = max(from, r.From)
			return nil
		})
		if err != nil {
			return err
		}
		w.next, w.nextID = s.last+1, s.id+1
	}
	if run > 0 {
		if w.kept[run].first > max(from, 1) {
			return errs.Corrupt(w.kept[run].file.Name(), 16, "journal segment %d is missing; record %d is still needed", w.kept[run].id-1, max(from, 1))
		}
		for _, s := range w.kept[:run] {
			s.last = 0 // nothing in it is needed
		}
	}
	for _, s := range w.kept {
		if s.last < from || s.last < s.first {
			continue
		}
		err := s.scan(func(r Record) error {
			if r.J < from || r.Kind == Start {
				return nil
			}
			return visit(r)
		})
		if err != nil {
			return err
		}
	}
	for _, s := range w.kept {
		w.nextNo = max(w.nextNo, s.slot+1)
	}
	for _, slot := range w.free {
		w.nextNo = max(w.nextNo, slot+1)
	}
	return w.releaseBefore(from)
}

// Next returns the number the next record gets.
func (w *Writer) Next() J {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// Append makes the record durable and returns its number (also in r.J). Records of concurrent callers share a
// sync. r must not be changed until Append returns. A context that ends before the record is queued leaves
// everything as it was; afterwards the call runs to its end.
//
// errs.ErrInvalid and errs.ErrLimit: the record cannot be written, the journal goes on. errs.ErrNoSpace: no new
// segment could be made, nothing was written, the journal goes on. errs.ErrSync: the outcome is unknown until the
// next Open, and every later Append fails.
func (w *Writer) Append(ctx context.Context, r *Record) (J, error) {
	if err := errors.Join(ctx.Err(), r.validate()); err != nil {
		return 0, err
	}
	me := &waiter{r: r, done: make(chan struct{}), promote: make(chan struct{})}
	w.mu.Lock()
	w.queue = append(w.queue, me)
	lead := !w.leading
	w.leading = true
	w.mu.Unlock()
	if !lead {
		select {
		case <-me.done:
			return r.J, me.err
		case <-me.promote:
		}
	}
	w.lead(me)
	return r.J, me.err
}

// lead writes one group, the leader's own record first, and hands leadership on.
func (w *Writer) lead(own *waiter) {
	w.turn <- struct{}{}
	group := w.take()
	err := w.write(group)
	<-w.turn
	w.mu.Lock()
	if errors.Is(err, errs.ErrSync) && w.dead == nil {
		w.dead = err
	}
	if len(w.queue) == 0 {
		w.leading = false
	} else {
		close(w.queue[0].promote)
	}
	w.mu.Unlock()
	for _, m := range group {
		m.err = err
		if err != nil {
			m.r.J = 0
		}
		if m != own {
			close(m.done)
		}
	}
}

func (w *Writer) take() []*waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, bytes := 0, int64(0)
	for n < len(w.queue) && (n == 0 || bytes+w.queue[n].r.blocks() <= w.o.GroupBytes) {
		bytes += w.queue[n].r.blocks()
		n++
	}
	group := slices.Clone(w.queue[:n])
	w.queue = w.queue[n:]
	return group
}

// write numbers the group's records, writes them back to back into one segment, and syncs once.
func (w *Writer) write(group []*waiter) error {
	w.mu.Lock()
	dead, next := w.dead, w.next
	w.mu.Unlock()
	if dead != nil {
		return dead
	}
	size := int64(0)
	for _, m := range group {
		size += m.r.blocks()
	}
	if w.cur == nil || w.off+size > w.cur.file.Size() {
		if err := w.roll(size, next); err != nil {
			return err
		}
	}
	buf := make([]byte, 0, size)
	for i, m := range group {
		m.r.J = next + J(i)
		buf = m.r.append(buf, w.cur.id, next)
	}
	if err := w.cur.file.WriteAt(buf, w.off); err != nil {
		return err
	}
	if err := w.cur.file.Sync(); err != nil {
		return err
	}
	// Durable: the group's records.
	w.off += size
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = next + J(len(group))
	w.cur.last = w.next - 1
	return nil
}

// roll begins a new segment with room for size bytes, in a recycled file if one is large enough.
func (w *Writer) roll(size int64, first J) error {
	want := max(w.o.SegmentBytes, blockBytes+size)
	s := &segment{id: w.nextID, first: first, last: first - 1}
	for i, slot := range w.free {
		f, err := w.dir.Open(slot)
		if err != nil {
			return fmt.Errorf("recycle journal segment: %w", err)
		}
		if f.Size() == want {
			s.file, s.slot = f, slot
			w.free = slices.Delete(w.free, i, i+1)
			break
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if s.file == nil {
		f, err := w.dir.Create(w.nextNo, want)
		if err != nil {
			return fmt.Errorf("new journal segment: %w", err)
		}
		s.file, s.slot = f, w.nextNo
		w.nextNo++
	}
	if err := s.writeHeader(); err != nil {
		return errors.Join(err, s.file.Close())
	}
	w.cur, w.off = s, blockBytes
	w.nextID++
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, s)
	return nil
}

// Release says durably, by a start record, that records before from are no longer needed, and recycles the segments
// that hold only such.
func (w *Writer) Release(ctx context.Context, from J) error {
	if from == 0 || from > w.Next() {
		return fmt.Errorf("release journal up to %d, next is %d: %w", from, w.Next(), errs.ErrInvalid)
	}
	if _, err := w.Append(ctx, &Record{Kind: Start, From: from}); err != nil {
		return err
	}
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	return w.releaseBefore(from)
}

// releaseBefore frees the files of segments all of whose records are before from. The caller holds turn.
func (w *Writer) releaseBefore(from J) error {
	w.mu.Lock()
	n := 0
	for n < len(w.kept) && w.kept[n] != w.cur && w.kept[n].last < from {
		n++
	}
	gone := w.kept[:n]
	w.kept = slices.Clone(w.kept[n:])
	w.mu.Unlock()
	var err error
	for _, s := range gone {
		// Why the file is left as it is: its header keeps it a segment, and its records are before the start
		// record, until a new header makes it another one.
		err = errors.Join(err, s.file.Close())
		if s.file.Size() == w.o.SegmentBytes {
			w.free = append(w.free, s.slot)
		} else {
			err = errors.Join(err, w.dir.Remove(s.slot))
		}
	}
	return err
}

// Close closes the files. Nothing is written. Appends must have returned.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead == nil {
		w.dead = fmt.Errorf("journal: %w", errs.ErrClosed)
	}
	var err error
	for _, s := range w.kept {
		err = errors.Join(err, s.file.Close())
	}
	w.kept, w.cur = nil, nil
	return err
}
