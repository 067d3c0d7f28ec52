package wal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// Read visits the entries from position from (1 if 0) to the last existing one, in order, and returns the
// position of the last (from-1 if there is none). limit bounds the size of one entry in bytes (errs.ErrLimit;
// 0 or less = 1 GiB). The batches are released when visit returns: retain what must stay.
//
// An entry that cannot be decoded is an errs.ErrCorruption naming the object, at the end of the log too: a put
// is atomic, so a torn entry is not an unfinished append. So is a missing position below an existing one.
// Entries of an epoch above the reader's own are the caller's to refuse.
// Spec: MemWAL, "Recovery".
func Read(ctx context.Context, st objstore.Store, dir string, from Position, limit int64, visit func(Entry) error) (tail Position, err error) {
	from = max(from, 1)
	if limit <= 0 {
		limit = maxEntryBytes
	}
	next := from
	for {
		for {
			found, err := readOne(ctx, st, dir, next, limit, visit)
			if err != nil {
				return next - 1, err
			}
			if !found {
				break
			}
			next++
		}
		// Why: a hole must not end the replay silently. A position that appears behind the listing while it
		// runs was appended meanwhile, and is read by going round again.
		last, err := lastPosition(ctx, st, dir)
		if err != nil || last < next {
			return next - 1, err
		}
		if _, err := st.Stat(ctx, EntryName(dir, next)); err != nil {
			if errors.Is(err, errs.ErrNotFound) {
				err = &hole{errs.Corrupt(EntryName(dir, next), -1, "WAL entry %d is missing but entry %d exists", next, last)}
			}
			return next - 1, err
		}
	}
}

// ErrHole is matched by the corruption that Read reports for a missing position below an existing one: a reader beside
// the writer may just have been passed by a removal.
var ErrHole = errors.New("hole in the WAL")

// hole is a corruption that matches ErrHole too.
type hole struct{ error }

func (h *hole) Unwrap() error { return h.error }

// Is reports whether target is ErrHole.
func (h *hole) Is(target error) bool { return target == ErrHole }

func readOne(ctx context.Context, st objstore.Store, dir string, p Position, limit int64, visit func(Entry) error) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	name := EntryName(dir, p)
	data, err := st.ReadAll(ctx, name, limit)
	if errors.Is(err, errs.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read WAL entry %d of %s: %w", p, dir, err)
	}
	e, err := DecodeEntry(name, data)
	if err != nil {
		return false, err
	}
	defer e.Release()
	e.Position = p
	return true, visit(e)
}

// positions lists the positions present in the log of dir, in no order, with their sizes in bytes.
func positions(ctx context.Context, st objstore.Store, dir string, visit func(p Position, size int64) error) error {
	err := st.List(ctx, dir+"/"+entryDir, func(i objstore.Info) error {
		if p, ok := parseEntryName(i.Name); ok && !i.Dir {
			return visit(p, i.Size)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list WAL of %s: %w", dir, err)
	}
	return nil
}

// lastPosition returns the greatest position present, 0 if none.
func lastPosition(ctx context.Context, st objstore.Store, dir string) (last Position, err error) {
	err = positions(ctx, st, dir, func(p Position, _ int64) error { last = max(last, p); return nil })
	return last, err
}

// Covered visits the entries at or below upTo, which a published generation covers and of which some may be gone, in
// order. What cannot be decoded is left out: its rows are in a generation. limit is that of Read.
func Covered(ctx context.Context, st objstore.Store, dir string, upTo Position, limit int64, visit func(Entry) error) error {
	var found []Position
	err := positions(ctx, st, dir, func(p Position, _ int64) error {
		if p <= upTo {
			found = append(found, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if limit <= 0 {
		limit = maxEntryBytes
	}
	slices.Sort(found)
	for _, p := range found {
		if _, err := readOne(ctx, st, dir, p, limit, visit); err != nil && !errors.Is(err, errs.ErrCorruption) {
			return err
		}
	}
	return nil
}
