package fragreuse

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/indexes"
	"lancesql/lance/rowaddr"
)

// Segment is an opened segment whose answers are translated: a planner sees only addresses and fragments of today.
// It implements indexes.Segment.
type Segment struct {
	inner indexes.Segment
	t     *Translation
}

var _ indexes.Segment = (*Segment)(nil)

// Wrap translates the answers of s, which it owns from then on. s holds row addresses and was opened with t.Sources() as
// its coverage.
func Wrap(s indexes.Segment, t *Translation) *Segment { return &Segment{s, t} }

// Search implements indexes.Segment.
func (s *Segment) Search(ctx context.Context, q indexes.Query) (indexes.Result, error) {
	r, err := s.inner.Search(ctx, q)
	if err != nil {
		return indexes.Result{}, err
	}
	if s.t.Steps() == 0 {
		r.Addrs.Retain(s.t.Coverage())
	} else if r.Addrs, err = s.t.Treemap(ctx, r.Addrs); err != nil {
		return indexes.Result{}, fmt.Errorf("translate an index result: %w", err)
	}
	r.Fragments = s.t.Coverage()
	return r, nil
}

// Coverage implements indexes.Segment.
func (s *Segment) Coverage() *roaring.Bitmap { return s.t.Coverage() }

// Close implements indexes.Segment.
func (s *Segment) Close() error { return s.inner.Close() }

// idsBatch is how many ids are translated at a time.
const idsBatch = 1 << 14

// IDs returns the translation in the form that rewriting a BTREE asks for (btree.Translate): it rewrites ids in place
// and clears keep where a row is gone. ctx is that of the whole rewriting.
func (t *Translation) IDs(ctx context.Context) func(ids []uint64, keep []bool) error {
	return func(ids []uint64, keep []bool) error {
		var addrs [idsBatch]rowaddr.Addr
		for from := 0; from < len(ids); from += idsBatch {
			part := ids[from:min(from+idsBatch, len(ids))]
			for i, id := range part {
				addrs[i] = rowaddr.Addr(id)
			}
			if _, err := t.Each(ctx, addrs[:len(part)]); err != nil {
				return err
			}
			for i, a := range addrs[:len(part)] {
				if a == Gone {
					keep[from+i] = false
					continue
				}
				part[i] = uint64(a)
			}
		}
		return nil
	}
}

// Set returns the translation in the form that rewriting a BITMAP asks for.
func (t *Translation) Set(ctx context.Context) func(m *rowaddr.Treemap) (*rowaddr.Treemap, error) {
	return func(m *rowaddr.Treemap) (*rowaddr.Treemap, error) { return t.Treemap(ctx, m) }
}
