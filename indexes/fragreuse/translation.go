package fragreuse

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/internal/errs"
	"lancesql/lance/rowaddr"
)

// Translation carries the addresses of one index segment to the fragments that the segment covers today. It is
// immutable and safe for concurrent use.
type Translation struct {
	stored     *roaring.Bitmap // the bitmap of the entry
	coverage   *roaring.Bitmap
	sources    *roaring.Bitmap // fragments from which the coverage is reached, itself among them
	everything bool            // no coverage: addresses in fragments without a step are kept
	steps      int             // steps that the segment's addresses may take

	byID  []target          // by fragment id, if ids are small
	other map[uint32]target // otherwise
}

// target says what happens to addresses of a fragment: the zero value drops them.
type target struct {
	keep bool
	source
}

// denseIDsMax is the fragment id up to which targets are found by index.
const denseIDsMax = 1 << 20

// For makes the translation of a segment whose index entry covers the fragments of covered. Steps that cannot be
// followed, because their kind is unknown or their row map cannot be reached, take their destinations out of the
// coverage: the rest is served, they are scanned. Errors: errs.ErrCorruption for a history that cannot be right; then
// the segment must not be used.
//
// It is for kinds of index that hold row addresses. In tables with stable row ids entries that are ids stay as they are
// and only Coverage applies.
// Spec: Fragment Reuse Index, "Address Translation"; docs/format/fri.md, "Coverage".
func (h *History) For(ctx context.Context, covered *roaring.Bitmap) (*Translation, error) {
	t := &Translation{stored: covered.Clone(), coverage: covered.Clone()}
	if h == nil {
		t.sources = t.coverage
		t.finish(nil)
		return t, nil
	}
	t.coverage = h.reuse.Coverage(covered)
	var needed []*step
	reach := t.coverage.Clone()
	for i := len(h.steps) - 1; i >= 0; i-- {
		s := h.steps[i]
		if !s.reaches(reach) {
			continue
		}
		switch err := s.load(ctx, h.o); {
		case errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrLimit):
			return h.without(ctx, covered, s)
		case err != nil:
			return nil, fmt.Errorf("translate by the fragment reuse history: %w", err)
		}
		for _, d := range s.Sources {
			reach.Add(d.ID)
		}
		needed = append(needed, s)
	}
	t.sources = reach
	t.finish(needed)
	return t, nil
}

// without is For in a history whose step s is of an unknown kind. Its destinations are covered by nobody.
func (h *History) without(ctx context.Context, covered *roaring.Bitmap, s *step) (*Translation, error) {
	blind := *h.reuse
	blind.Steps = slices.Clone(blind.Steps)
	for i := range blind.Steps {
		if h.steps[i] == s {
			blind.Steps[i].Ordered, blind.Steps[i].Partition = nil, nil
		}
	}
	g := &History{reuse: &blind, by: h.by, o: h.o}
	for i, have := range h.steps {
		if have == s {
			have = &step{ReuseStep: blind.Steps[i], starts: s.starts}
		}
		g.steps = append(g.steps, have)
	}
	return g.For(ctx, covered)
}

func (s *step) reaches(fragments *roaring.Bitmap) bool {
	for _, d := range s.Destinations {
		if fragments.Contains(d.ID) {
			return true
		}
	}
	return false
}

// finish builds the table of targets.
func (t *Translation) finish(needed []*step) {
	t.steps = len(needed)
	top := uint32(0)
	if !t.coverage.IsEmpty() {
		top = t.coverage.Maximum()
	}
	for _, s := range needed {
		for _, d := range s.Sources {
			top = max(top, d.ID)
		}
	}
	set := func(id uint32, x target) { t.byID[id] = x }
	if top < denseIDsMax {
		t.byID = make([]target, top+1)
	} else {
		t.other = make(map[uint32]target)
		set = func(id uint32, x target) { t.other[id] = x }
	}
	for it := t.coverage.Iterator(); it.HasNext(); {
		set(it.Next(), target{keep: true})
	}
	for _, s := range needed {
		for i, d := range s.Sources {
			set(d.ID, target{source: source{s, i}})
		}
	}
}

func (t *Translation) target(fragment uint32) (x target) {
	if t.byID == nil {
		x = t.other[fragment]
	} else if uint64(fragment) < uint64(len(t.byID)) {
		x = t.byID[fragment]
	}
	x.keep = x.keep || t.everything && x.step == nil
	return x
}

// Coverage returns the fragments that the segment covers after translation, read-only. Fragments that are not in the
// manifest (any more) may be among them.
func (t *Translation) Coverage() *roaring.Bitmap { return t.coverage }

// Sources returns the fragments of addresses that lead to the coverage, read-only: what to tell a kind that keeps only
// addresses in fragments it is told to cover. The bitmap of the entry would be wrong: another writer may have mapped it
// while the files still hold the old addresses.
func (t *Translation) Sources() *roaring.Bitmap { return t.sources }

// Steps is the number of rewrites that addresses of the segment may have to follow; 0: none has moved, and Retain of
// Coverage is all there is to do.
func (t *Translation) Steps() int { return t.steps }

// Each translates addresses in place and in any order: what leads to no row of the coverage becomes Gone. It returns how
// many remain. errs.ErrCorruption for a row map that does not agree with its digests.
func (t *Translation) Each(ctx context.Context, addrs []rowaddr.Addr) (kept int, err error) {
	var wait []int // places of addrs that a stable partition must translate
	kept, wait = t.follow(addrs, nil, wait)
	for len(wait) > 0 {
		if err := t.partitions(ctx, addrs, wait); err != nil {
			return 0, err
		}
		var n int
		next := make([]int, 0, len(wait))
		n, next = t.follow(addrs, wait, next)
		kept, wait = kept+n, next
	}
	return kept, nil
}

// follow takes the addresses at the given places (nil: all) through ordered steps. Those at a stable partition are
// appended to wait.
func (t *Translation) follow(addrs []rowaddr.Addr, places, wait []int) (kept int, _ []int) {
	n := len(addrs)
	if places != nil {
		n = len(places)
	}
	last, at := uint32(0), t.target(0)
	for k := range n {
		i := k
		if places != nil {
			i = places[k]
		}
		a := addrs[i]
		if a == Gone {
			continue
		}
		if f := a.Fragment(); f != last {
			last, at = f, t.target(f)
		}
		x := at
		for x.step != nil && x.step.Ordered != nil {
			s := x.step
			rank, ok := s.ranks[x.index].rank(a.Offset())
			if !ok {
				a, x = s.dead(a, x.index, t.everything)
				break
			}
			a = s.place(s.before[x.index] + uint64(rank))
			x = t.target(a.Fragment())
		}
		switch {
		case x.step != nil:
			wait = append(wait, i)
		case x.keep:
			kept++
		default:
			a = Gone
		}
		addrs[i] = a
	}
	return kept, wait
}

// dead is what becomes of an address that is not among the survivors: a deleted row, or an offset the fragment never had,
// which stays as it is where nothing is left out.
func (s *step) dead(a rowaddr.Addr, source int, everything bool) (rowaddr.Addr, target) {
	if everything && a.Offset() >= s.Sources[source].PhysicalRows {
		return a, target{keep: true}
	}
	return Gone, target{}
}

// Sorted is Each of ascending addresses without repetitions: it returns the translated ones, ascending, without those
// that are gone. The memory of addrs is used.
func (t *Translation) Sorted(ctx context.Context, addrs []rowaddr.Addr) ([]rowaddr.Addr, error) {
	if _, err := t.Each(ctx, addrs); err != nil {
		return nil, err
	}
	out := addrs[:0]
	ascending := true
	for _, a := range addrs {
		if a == Gone {
			continue
		}
		ascending = ascending && (len(out) == 0 || out[len(out)-1] < a)
		out = append(out, a)
	}
	if !ascending {
		slices.Sort(out)
	}
	return out, nil
}

// treemapBatch is how many addresses of a set are translated at a time.
const treemapBatch = 1 << 14

// Treemap translates a set of addresses; m is borrowed. Whole fragments become their surviving rows.
func (t *Translation) Treemap(ctx context.Context, m *rowaddr.Treemap) (*rowaddr.Treemap, error) {
	out := rowaddr.NewTreemap()
	offsets := make([]uint32, treemapBatch)
	addrs := make([]rowaddr.Addr, treemapBatch)
	for _, id := range m.Fragments() {
		set, whole := m.Offsets(id)
		x := t.target(id)
		switch {
		case x.step == nil && !x.keep:
			continue
		case x.keep && whole:
			out.AddFragment(id)
			continue
		case x.keep:
			out.AddOffsets(id, set)
			continue
		case whole:
			set = roaring.New()
			set.AddRange(0, uint64(x.step.Sources[x.index].PhysicalRows))
		}
		for it := set.ManyIterator(); ; {
			n := it.NextMany(offsets)
			if n == 0 {
				break
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			for i, o := range offsets[:n] {
				addrs[i] = rowaddr.New(id, o)
			}
			sorted, err := t.Sorted(ctx, addrs[:n])
			if err != nil {
				return nil, err
			}
			out.AddMany(sorted)
		}
	}
	return out, nil
}

// Translate follows addresses of any fragments through the whole history, in place: rows that were deleted when a
// fragment was rewritten become Gone, addresses of fragments that were not rewritten stay. errs.ErrUnsupported if part
// of the history cannot be followed. h may be nil.
func (h *History) Translate(ctx context.Context, addrs []rowaddr.Addr) error {
	if h == nil {
		return nil
	}
	t := &Translation{everything: true, coverage: roaring.New()}
	for _, s := range h.steps {
		if err := s.load(ctx, h.o); err != nil {
			return fmt.Errorf("translate by the fragment reuse history: %w", err)
		}
		for _, d := range s.Destinations {
			t.coverage.Add(d.ID)
		}
	}
	t.finish(h.steps)
	_, err := t.Each(ctx, addrs)
	return err
}
