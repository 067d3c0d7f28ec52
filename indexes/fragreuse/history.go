package fragreuse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

// Gone marks an address that leads to no row of the coverage.
const Gone = rowaddr.Addr(1<<64 - 1)

// Options say where the row maps of stable partitions are. The zero value is what Open fills in from the version.
type Options struct {
	// Maps returns the directory below which the row maps with a base id lie; nil stands for the table's own. An error: the
	// mapping cannot be followed, and what depends on it is scanned.
	Maps func(base *uint32) (store.Dir, error)
	// Blocks keeps decoded blocks of row maps, which take 256 KiB each; nil: a cache of its own.
	Blocks *store.Cache
}

// History translates addresses by the fragment reuse history of one version. It is safe for concurrent use. A nil
// *History is that of a table without one: nothing moves.
type History struct {
	reuse *table.FragmentReuse
	steps []*step
	by    map[uint32]source // by fragment: the step that rewrote it
	o     Options

	mu       sync.Mutex
	segments map[any]*Translation // under mu; the translations of segments, see Segment
}

// source is a fragment that a step consumed.
type source struct {
	step  *step
	index int // into step.Sources
}

// step is one rewrite, decoded when it is first needed.
type step struct {
	table.ReuseStep
	starts []uint64 // first position of each destination in the stream of surviving rows, and the end

	mu     sync.Mutex
	loaded bool     // under mu; what follows does not change after it
	err    error    // why the step cannot be followed
	ranks  []ranks  // of each source, if ordered
	before []uint64 // rows that precede each source: surviving ones if ordered, physical ones if a partition
	rows   *RowMap  // if a partition
}

// New prepares the history of a version; nil gives nil. Nothing is read or decoded before it is needed.
func New(reuse *table.FragmentReuse, o Options) *History {
	if reuse == nil {
		return nil
	}
	if o.Blocks == nil {
		o.Blocks = store.NewCache(0)
	}
	h := &History{reuse: reuse, by: make(map[uint32]source), o: o, segments: make(map[any]*Translation)}
	for i := range reuse.Steps {
		s := &step{ReuseStep: reuse.Steps[i], starts: make([]uint64, 1, len(reuse.Steps[i].Destinations)+1)}
		for _, d := range s.Destinations {
			s.starts = append(s.starts, s.starts[len(s.starts)-1]+uint64(d.PhysicalRows))
		}
		for k, d := range s.Sources {
			h.by[d.ID] = source{s, k}
		}
		h.steps = append(h.steps, s)
	}
	return h
}

// Open reads the history of a version; nil if it has none. Errors are those of table.Dataset.FragmentReuse: after one no
// index of the version may be used.
func Open(ctx context.Context, d *table.Dataset, o Options) (*History, error) {
	reuse, err := d.FragmentReuse(ctx)
	if err != nil {
		return nil, err
	}
	if o.Maps == nil {
		o.Maps = func(id *uint32) (store.Dir, error) {
			base, err := d.ReuseBase(id)
			return store.NewDir(base.Store, base.Dir, nil), err
		}
	}
	return New(reuse, o), nil
}

// Reuse returns what the history was made from, nil for a nil History.
func (h *History) Reuse() *table.FragmentReuse {
	if h == nil {
		return nil
	}
	return h.reuse
}

// Maintainable returns errs.ErrUnsupported if segments must not be remapped or merged, nor the history be trimmed or
// extended, because part of it is of an unknown kind.
func (h *History) Maintainable() error { return h.Reuse().Maintainable() }

// load decodes what the step needs to translate. errs.ErrUnsupported for a mapping that cannot be followed.
func (s *step) load(ctx context.Context, o Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded {
		return s.err
	}
	err := s.decode(ctx, o)
	// Only what the bytes say is final; a store that does not answer may do so next time.
	if err == nil || errors.Is(err, errs.ErrCorruption) || errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrLimit) {
		s.loaded, s.err = true, err
	}
	return err
}

func (s *step) decode(ctx context.Context, o Options) (err error) {
	s.before = make([]uint64, len(s.Sources))
	switch {
	case s.Ordered != nil:
		if s.ranks, err = decodeSurvivors("fragment reuse history", s.Ordered.Survivors, s.Sources); err != nil {
			return err
		}
		order := make([]int, len(s.Sources))
		for i := range order {
			order[i] = i
		}
		if s.Legacy { // rows of a legacy group are in ascending order of addresses, however it lists its sources
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.Sources[a].ID, s.Sources[b].ID) })
		}
		var n uint64
		for _, i := range order {
			s.before[i] = n
			n += uint64(s.Sources[i].LiveRows())
		}
		return nil
	case s.Partition != nil:
		var n uint64
		for i, d := range s.Sources {
			s.before[i] = n
			n += uint64(d.PhysicalRows)
		}
		dir, err := o.mapDir(s.Partition)
		if err != nil {
			return err
		}
		s.rows, err = OpenRowMap(ctx, dir, s.Partition, s.ReuseStep, o.Blocks)
		return err
	}
	return fmt.Errorf("a rewrite of fragment %d is recorded in an unknown way: %w", s.Sources[0].ID, errs.ErrUnsupported)
}

func (o Options) mapDir(p *table.ReusePartition) (store.Dir, error) {
	if o.Maps == nil {
		return store.Dir{}, fmt.Errorf("row map %s: no place to read it from: %w", p.MapID, errs.ErrUnsupported)
	}
	dir, err := o.Maps(p.BaseID)
	if err != nil {
		return store.Dir{}, fmt.Errorf("row map %s: %w: %w", p.MapID, errs.ErrUnsupported, err)
	}
	return dir, nil
}

// In is the Options.Maps of a table whose row maps all lie below dir, its own directory.
func In(dir store.Dir) func(base *uint32) (store.Dir, error) {
	return func(base *uint32) (store.Dir, error) {
		if base != nil {
			return store.Dir{}, fmt.Errorf("base path %d: %w", *base, errs.ErrUnsupported)
		}
		return dir, nil
	}
}

// place returns where a position of the stream of surviving rows lies.
func (s *step) place(position uint64) rowaddr.Addr {
	i := 0
	if len(s.Destinations) > 1 {
		i = sort.Search(len(s.Destinations), func(i int) bool { return s.starts[i+1] > position })
	}
	return rowaddr.New(s.Destinations[i].ID, uint32(position-s.starts[i]))
}

// Segment is For of an index segment, kept as long as the history: key identifies the segment (its UUID), covered is the
// bitmap of its entry. It is made anew when the entry covers something else meanwhile.
func (h *History) Segment(ctx context.Context, key any, covered *roaring.Bitmap) (*Translation, error) {
	if h == nil {
		return h.For(ctx, covered)
	}
	h.mu.Lock()
	t := h.segments[key]
	h.mu.Unlock()
	if t != nil && t.stored.Equals(covered) {
		return t, nil
	}
	t, err := h.For(ctx, covered)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.segments) >= segmentsMax {
		clear(h.segments)
	}
	h.segments[key] = t
	return t, nil
}

// segmentsMax bounds the translations a History keeps.
const segmentsMax = 4096
