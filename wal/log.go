package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

const (
	putAttempts   = 4 // of one slot: the first and three retries
	retryDelay    = 50 * time.Millisecond
	retryDelayMax = 5 * time.Second
	maxConflicts  = 1024    // positions a sentinel may find taken
	maxEntryBytes = 1 << 30 // of one entry, when the caller sets no limit
)

// Log appends to the WAL of one shard for one writer epoch. It is safe for concurrent use; appends take turns.
type Log struct {
	st      objstore.Store
	dir     string
	epoch   Epoch
	current func(context.Context) (Epoch, error)
	turn    chan struct{} // holds the right to append

	mu   sync.Mutex
	next Position // of the next entry, under mu
	dead error    // why the log refuses to append, nil while it works, under mu
}

// Open returns a log that appends at next (from 1) in the shard directory dir ("{table}/_mem_wal/{shard}") as
// the writer that claimed epoch. current reads the epoch in the newest shard manifest past any cache; it is
// asked when a position is found taken and after a sentinel was written. Nothing is read or written here.
func Open(st objstore.Store, dir string, epoch Epoch, next Position, current func(context.Context) (Epoch, error)) *Log {
	return &Log{st: st, dir: dir, epoch: epoch, current: current, turn: make(chan struct{}, 1), next: max(next, 1)}
}

// Next returns the position the next entry gets.
func (l *Log) Next() Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// Epoch returns the writer's epoch.
func (l *Log) Epoch() Epoch { return l.epoch }

// Err returns why the log refuses to append (errs.ErrPoisoned or errs.ErrFenced), nil while it works.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// kill makes err the reason for refusing every later append and returns it.
func (l *Log) kill(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead == nil {
		l.dead = err
	}
	return err
}

func (l *Log) advance(p Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = p
}

// begin waits for the right to append; the caller calls end.
func (l *Log) begin(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := ctx.Err()
	if err == nil {
		err = l.Err()
	}
	if err != nil {
		l.end()
	}
	return err
}

func (l *Log) end() { <-l.turn }

// Append is Put for batches (borrowed, at least one row; see EncodeBody).
func (l *Log) Append(ctx context.Context, schema *arrow.Schema, gen uint64, batches []arrow.RecordBatch) (Position, error) {
	body, err := EncodeBody(schema, batches)
	if err != nil {
		return 0, err
	}
	return l.Put(ctx, schema, Draft{Generation: gen, Bodies: [][]byte{body}})
}

// Put makes the draft durable as one entry and returns its position. A context that ends before the entry is being written leaves everything as it was; afterwards the
// call runs to its end.
//
// errs.ErrFenced: a newer writer owns the shard. errs.ErrPoisoned (with the cause): what lies at the position
// is unknown or unread by this writer, reopen and replay. Both stick. errs.ErrNoSpace: nothing was written, the
// log goes on. errs.ErrLimit: more than an entry may hold. errs.ErrInvalid, errs.ErrUnsupported: see EncodeDraft; the
// log goes on.
// Spec: MemWAL, "WAL append".
func (l *Log) Put(ctx context.Context, schema *arrow.Schema, d Draft) (Position, error) {
	data, err := EncodeDraft(schema, l.epoch, d)
	if err != nil {
		return 0, err
	}
	if len(data) > maxEntryBytes {
		// Why: replay would refuse what was acknowledged.
		return 0, fmt.Errorf("WAL entry of %d bytes, at most %d: %w", len(data), maxEntryBytes, errs.ErrLimit)
	}
	if err := l.begin(ctx); err != nil {
		return 0, err
	}
	defer l.end()
	p := l.Next()
	err = l.put(context.WithoutCancel(ctx), p, data)
	if errors.Is(err, errs.ErrExists) {
		// Why not go on to p+1, as the specification allows when the epoch is still ours: after our sentinel
		// only an entry this writer has not replayed can lie here, and the next flush would pass over it.
		return 0, l.taken(context.WithoutCancel(ctx), p)
	}
	if err != nil {
		return 0, err
	}
	l.advance(p + 1) // Durable: the entry is at p
	return p, nil
}

// taken decides what an entry of somebody else at p means, and kills the log.
func (l *Log) taken(ctx context.Context, p Position) error {
	if err := l.checkFence(ctx); err != nil {
		return err
	}
	return l.kill(fmt.Errorf("WAL position %d of %s holds an entry this writer has not replayed: %w", p, l.dir, errs.ErrPoisoned))
}

// checkFence returns nil while the shard is ours; errs.ErrFenced, or errs.ErrPoisoned if that is unknown.
func (l *Log) checkFence(ctx context.Context) error {
	e, err := l.current(ctx)
	switch {
	case err != nil:
		return l.kill(fmt.Errorf("read the epoch of %s: %w: %w", l.dir, errs.ErrPoisoned, err))
	case e > l.epoch:
		return l.kill(fmt.Errorf("WAL of %s: epoch %d, ours is %d: %w", l.dir, e, l.epoch, errs.ErrFenced))
	case e < l.epoch:
		return l.kill(fmt.Errorf("WAL of %s: epoch fell to %d from %d: %w", l.dir, e, l.epoch, errs.ErrPoisoned))
	}
	return nil
}

// put writes data at p. nil: these bytes are there. errs.ErrExists: other bytes are there. errs.ErrNoSpace:
// nothing is there. Other errors have poisoned the log.
//
// A failed attempt may have written all the same, and so may a retry inside the store, so the slot is read back
// before anything is concluded; our bytes carry our epoch, which nobody else has, so equal bytes are ours.
func (l *Log) put(ctx context.Context, p Position, data []byte) error {
	name := EntryName(l.dir, p)
	delay := retryDelay
	var first error
	for attempt := 1; ; attempt++ {
		err := l.st.PutIfAbsent(ctx, name, data)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
		if errors.Is(err, errs.ErrSync) {
			// Why not read back: after a failed sync the file may be readable and yet not survive.
			return l.poison(p, err)
		}
		there, rerr := l.st.ReadAll(ctx, name, int64(len(data))+1)
		switch {
		case rerr == nil && bytes.Equal(there, data):
			return nil
		case rerr == nil, errors.Is(rerr, errs.ErrLimit):
			return fmt.Errorf("WAL position %d of %s: %w", p, l.dir, errs.ErrExists)
		case !errors.Is(rerr, errs.ErrNotFound):
			return l.poison(p, errors.Join(first, rerr))
		case errors.Is(err, errs.ErrNoSpace):
			return fmt.Errorf("WAL position %d of %s: %w", p, l.dir, err)
		case attempt == putAttempts:
			return l.poison(p, first)
		}
		time.Sleep(delay)
		delay = min(2*delay, retryDelayMax)
	}
}

func (l *Log) poison(p Position, cause error) error {
	return l.kill(fmt.Errorf("write WAL position %d of %s: %w: %w", p, l.dir, errs.ErrPoisoned, cause))
}

// Fence writes a fence sentinel at the tip of the log, behind everything that is there, and returns its
// position; appends go on after it. Call it after claiming the shard and before replay: an older writer then
// meets the sentinel at its next position. Errors are those of Append; errs.ErrFenced also when the epoch is no
// longer ours after the sentinel is written. The caller checks that the position is above the replay cursor.
// Spec: MemWAL, "Writer fencing".
func (l *Log) Fence(ctx context.Context) (Position, error) {
	data, err := EncodeSentinel(l.epoch)
	if err != nil {
		return 0, err
	}
	if err := l.begin(ctx); err != nil {
		return 0, err
	}
	defer l.end()
	run := context.WithoutCancel(ctx)
	for range maxConflicts {
		tip, err := lastPosition(ctx, l.st, l.dir)
		if err != nil {
			return 0, err
		}
		p := max(l.Next(), tip+1)
		switch err := l.put(run, p, data); {
		case errors.Is(err, errs.ErrExists):
			// An older writer was faster, or a newer one has come.
			if err := l.checkFence(run); err != nil {
				return 0, err
			}
			l.advance(p + 1)
			continue
		case err != nil:
			return 0, err
		}
		l.advance(p + 1) // Durable: the sentinel is at p
		return p, l.checkFence(run)
	}
	return 0, l.kill(fmt.Errorf("fence %s: %d positions taken: %w", l.dir, maxConflicts, errs.ErrPoisoned))
}
