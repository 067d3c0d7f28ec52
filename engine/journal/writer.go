package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"lancesql/internal/errs"
	"lancesql/internal/logfile"
)

// Options configures Open; zero fields mean their defaults.
type Options struct {
	SegmentBytes int64 // preallocated size of a segment (default 64 MiB)
	FirstBytes   int64 // size of the first segment after Open (default 4 MiB, at most SegmentBytes): opening is cheap
	GroupBytes   int64 // bytes written under one sync (default 16 MiB); a single larger record goes alone
}

// bufferKept is the largest buffer that is kept for the next write.
const bufferKept = 1 << 20

// freeKept is how many files wait to be written over; more are deleted, so that one burst does not hold disk for ever.
const freeKept = 2

func (o Options) withDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.FirstBytes <= 0 {
		o.FirstBytes = 4 << 20
	}
	o.FirstBytes = min(o.FirstBytes, o.SegmentBytes)
	if o.GroupBytes <= 0 {
		o.GroupBytes = 16 << 20
	}
	return o
}

// Writer appends records. All methods but Close are safe for concurrent use.
//
// mu guards queue, leading, dead, kept, next, unsynced and from. Whoever holds turn owns buf, cur, off, free, nextID and nextNo;
// cur changes under mu as well, where others look at it.
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
	// unsynced is the first record that is written and not synced, 0 if there is none. It is the "first record
	// under the same sync" of every record until the next sync.
	unsynced J
	from     J // of the newest start record

	ends []End // of the newest start record that Open found

	low  atomic.Bool // see Low
	held atomic.Bool // see Hold; changes under turn

	buf    []byte // scratch of write
	cur    *segment
	off    int64 // of the next record in cur
	free   []int // slots whose files may be overwritten
	nextID uint64
	nextNo int // smallest slot number never used
}

type waiter struct {
	r       *Record
	sync    bool
	err     error
	done    chan struct{}
	promote chan struct{}
}

// Open scans the journal and visits every record from the first one still needed, in order, of the start records
// those with counters; then it is ready to append after the last. A torn tail is not an error. errs.ErrCorruption if a record in the middle is damaged or
// missing: nothing may be appended then, since what follows it would be lost.
//
// Appending goes on in a fresh segment, so that no block a crash may have left half written is written again. Files that are
// there already are never written over: the process that made them may only be stopped, and what it writes when it goes on
// must land in files that nobody reads.
func Open(_ context.Context, dir *logfile.Dir, o Options, visit func(Record) error) (*Writer, error) {
	// Why: a file whose making was cut short by the death of a process has a name that a power failure may still take.
	if err := dir.Sync(); err != nil {
		return nil, err
	}
	segments, free, others, err := openSegments(dir)
	if err != nil {
		return nil, err
	}
	if err := others.damaged(segments); err != nil {
		closeAll(segments)
		return nil, err
	}
	w := &Writer{dir: dir, o: o.withDefaults(), turn: make(chan struct{}, 1), kept: segments, free: free, next: 1, nextID: 1}
	if err := w.recover(visit); err != nil {
		closeAll(w.kept) // not segments: those released are closed
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
			if r.Kind == Start {
				from = max(from, r.From)
				w.ends = r.Ends // of the newest: each names them all
			}
			return nil
		})
		if err != nil {
			return err
		}
		w.next, w.nextID = s.next, s.id+1
	}
	if n := len(w.kept); n > 0 {
		// Why: what a process that died had written and not synced is visible now, and may be acted upon and followed
		// by further records; a power failure must not take it back then. Older segments were synced before it began.
		if err := w.kept[n-1].file.Sync(); err != nil {
			return err
		}
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
			if r.J < from || r.Kind == skip || r.Kind == Start && len(r.Counters) == 0 {
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
	for _, slot := range w.free {
		if err := w.dir.Remove(slot); err != nil {
			return err
		}
	}
	w.free = nil
	for _, s := range w.kept {
		s.old = true
	}
	w.from = from
	return w.releaseBefore(from)
}

// Next returns the number the next record gets.
func (w *Writer) Next() J {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// Ends returns the ends of WALs that the newest start record named when the journal was opened.
func (w *Writer) Ends() []End { return w.ends }

// Append makes the record durable and returns its number (also in r.J). Records of concurrent callers share a
// sync. r must not be changed until Append returns. A context that ends before the record is queued leaves
// everything as it was; afterwards the call runs to its end.
//
// errs.ErrInvalid and errs.ErrLimit: the record cannot be written, the journal goes on. errs.ErrNoSpace: no new
// segment could be made, nothing was written, the journal goes on. errs.ErrSync: the outcome is unknown until the
// next Open, and every later Append fails.
func (w *Writer) Append(ctx context.Context, r *Record) (J, error) { return w.append(ctx, r, true) }

// Write is Append without the wait for a sync: the record is durable after the next Sync, or the next Append, that
// returns nil. A crash before that keeps a prefix of what was written.
func (w *Writer) Write(ctx context.Context, r *Record) (J, error) { return w.append(ctx, r, false) }

func (w *Writer) append(ctx context.Context, r *Record, sync bool) (J, error) {
	if err := errors.Join(ctx.Err(), r.validate()); err != nil {
		return 0, err
	}
	if r.Kind == skip {
		return 0, fmt.Errorf("append: record of kind %d: %w", r.Kind, errs.ErrInvalid)
	}
	me := &waiter{r: r, sync: sync, done: make(chan struct{}), promote: make(chan struct{})}
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

// Sync makes everything written before the call durable; errs.ErrSync as for Append.
func (w *Writer) Sync(context.Context) error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	return w.note(w.sync())
}

// Skip makes next the number of the next record, durably, unless the numbers are that far already.
func (w *Writer) Skip(_ context.Context, next J) error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if next <= w.Next() {
		return nil
	}
	r := &Record{Kind: skip, From: next}
	err := w.note(w.write([]*waiter{{r: r, sync: true}}))
	if err != nil {
		return fmt.Errorf("skip to record %d: %w", next, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = next
	return nil
}

// note keeps the first error after which nothing may be written any more.
func (w *Writer) note(err error) error {
	if !errors.Is(err, errs.ErrSync) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead == nil {
		w.dead = err
	}
	return err
}

// sync syncs the current segment if anything in it is not. The caller holds turn.
func (w *Writer) sync() error {
	w.mu.Lock()
	dead, unsynced := w.dead, w.unsynced
	w.mu.Unlock()
	if dead != nil || unsynced == 0 {
		return dead
	}
	if err := w.cur.file.Sync(); err != nil {
		return err
	}
	// Durable: everything written.
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsynced = 0
	return nil
}

// lead writes one group, the leader's own record first, and hands leadership on.
func (w *Writer) lead(own *waiter) {
	w.turn <- struct{}{}
	group := w.take()
	err := w.note(w.write(group))
	<-w.turn
	w.mu.Lock()
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

// write numbers the group's records, writes them back to back into one segment, and syncs once if one of them asks
// for it. The caller holds turn.
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
	if w.cur != nil && w.held.Load() && w.off+size > w.cur.file.Size() {
		if err := w.grow(size); err != nil {
			return fmt.Errorf("longer journal segment: %w", err)
		}
	}
	if w.cur == nil || w.off+size > w.cur.file.Size() {
		if err := w.roll(size, next); err != nil {
			return err
		}
	}
	w.mu.Lock()
	if w.unsynced == 0 {
		w.unsynced = next
	}
	first := w.unsynced
	w.mu.Unlock()
	buf, sync := w.buf[:0], false
	for i, m := range group {
		m.r.J = next + J(i)
		buf = m.r.append(buf, w.cur.id, first)
		sync = sync || m.sync
	}
	if w.buf = buf; cap(buf) > bufferKept {
		w.buf = nil
	}
	if err := w.cur.file.WriteAt(buf, w.off); err != nil {
		return err
	}
	if sync {
		if err := w.sync(); err != nil {
			return err
		}
	}
	// Durable: the group's records, if sync.
	w.off += size
	w.low.Store(w.off > w.cur.file.Size()/2 && len(w.free) == 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = next + J(len(group))
	w.cur.last = w.next - 1
	return nil
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
