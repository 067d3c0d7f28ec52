package lsm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/uuid"

	"lancesql/indexes"
	"lancesql/indexes/fragreuse"
	"lancesql/indexes/store"
	"lancesql/internal/arrowx"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
	"lancesql/lance/table"
)

const (
	// BucketsMax bounds the buckets of a recluster: those of a published one are fragments of one stable partition.
	BucketsMax = table.PartitionDestinationsMax
	// gatherBytes is about how many bytes of rows are put in order at a time; a table is read once for each.
	gatherBytes = 128 << 20
	// sampleKeys is how many keys for each bucket are looked at to find its bounds, within limits.
	sampleKeys, sampleMin, sampleMax = 64, 1 << 12, 1 << 19
	// startOvers bounds how often a recluster begins anew because somebody else rewrote its fragments.
	startOvers = 3
	// noPlace marks a row that was deleted before the recluster.
	noPlace = math.MaxUint32
)

// Recluster says how Table.Recluster arranges rows.
type Recluster struct {
	Columns []int // physical positions, the most significant first; at least one
	Buckets int   // ranges of values of about equal size that rows are distributed over, 1 to BucketsMax
	// Publish makes every bucket fragments of its own and records where the rows went as a stable partition, instead of
	// rewriting index segments. It sets feature flag 1024 for good: readers of Lance 12 are shut out of the table.
	Publish bool
	// Progress, if set, is told how many of all rows have been written; it begins anew when the recluster does. No lock of
	// the table's data is held.
	Progress func(rows, of uint64)
}

// Reclustered is what Recluster did.
type Reclustered struct {
	FragmentsRemoved, FragmentsAdded int
	Rows                             uint64
	Segments                         int // of indexes, written for the new fragments
}

// Recluster rewrites the base so that rows of near values of some columns lie together: bucket by bucket, in their old
// order inside each. All readable BTREE and key indexes, those of other writers too, are rewritten in the same version,
// so that every library goes on using them, or, published, follow the rows through the reuse history; zone maps are
// those of the new rows. What else names the fragments loses them.
//
// Writers, flushes and merges go on meanwhile: the commit token is held for the beginning and the end only. Rows that were
// deleted while others were copied are deleted in their new places. Views begun before go on reading what they read, and
// the Floor stays. An empty table is left alone.
//
// errs.ErrUnsupported in tables whose fragments this package cannot rewrite and for columns without an order, errs.ErrLimit
// for more than four billion rows, errs.ErrConflict if other writers rewrite the same fragments again and again.
// Spec: Fragment Reuse Index, "Use Case 2".
func (t *Table) Recluster(ctx context.Context, h Hooks, o Recluster) (done Reclustered, err error) {
	if len(o.Columns) == 0 || o.Buckets < 1 || o.Buckets > BucketsMax {
		return done, fmt.Errorf("recluster by %d columns into %d buckets: %w", len(o.Columns), o.Buckets, errs.ErrInvalid)
	}
	t.rewriteMu.Lock()
	defer t.rewriteMu.Unlock()
	for range startOvers {
		if done, err = t.reclusterOnce(ctx, h, o); !errors.Is(err, errs.ErrConflict) {
			break
		}
	}
	if err != nil {
		return Reclustered{}, fmt.Errorf("recluster %s: %w", t.root, err)
	}
	return done, nil
}

func (t *Table) reclusterOnce(ctx context.Context, h Hooks, o Recluster) (done Reclustered, err error) {
	r, err := t.newRecluster(ctx, h, o)
	if err != nil {
		return done, err
	}
	defer t.release(r.v)
	if r.live == 0 {
		return done, nil
	}
	if err := r.arrange(ctx); err != nil {
		return done, err
	}
	if err := r.reserve(ctx, h); err != nil {
		return done, err
	}
	committed := false
	defer func() {
		if !committed {
			r.discard(ctx)
		}
	}()
	if err := r.copyRows(ctx); err != nil {
		return done, err
	}
	if err := r.writeIndexes(ctx); err != nil {
		return done, err
	}
	if committed, err = r.commit(ctx, h); err != nil {
		return done, err
	}
	return Reclustered{FragmentsRemoved: len(r.sources), FragmentsAdded: len(r.ends), Rows: r.live, Segments: len(r.added)}, nil
}

// reclustering is one attempt, computed on base version b.
type reclustering struct {
	t    *Table
	o    Recluster
	v    *Version
	b    *base
	enc  *rowkey.Encoder
	rows int64 // of a full fragment

	sources []*table.Fragment // every fragment of b
	at      map[uint32]uint64 // where the rows of a source begin in places
	places  []uint32          // of the physical rows of all sources: number in the new order, or noPlace
	live    uint64
	ends    []uint64 // destination i holds the rows below ends[i] that those before it do not

	first     uint64 // reserved id of the first destination
	sink      *fragmentSink
	zones     *zoneFeed
	added     []table.IndexEntry // segments of BTREE and key indexes over the destinations
	names     map[string]bool    // of the indexes they belong to
	partition *table.ReusePartition
}

func (t *Table) newRecluster(ctx context.Context, h Hooks, o Recluster) (*reclustering, error) {
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	if _, err := t.adopt(ctx, h); err != nil {
		return nil, fmt.Errorf("adopt outside commits: %w", err)
	}
	types := make([]arrow.DataType, len(o.Columns))
	for i, c := range o.Columns {
		types[i] = t.physical.Field(c).Type
	}
	enc, err := rowkey.NewOrderEncoder(types)
	if err != nil {
		return nil, err
	}
	if o.Publish {
		if err := t.joinSegments(ctx, h); err != nil {
			return nil, err
		}
	}
	v, err := t.newest()
	if err != nil {
		return nil, err
	}
	r := &reclustering{t: t, o: o, v: v, b: v.base, enc: enc, rows: t.tuning().FragmentRows, sources: v.base.frags,
		at: make(map[uint32]uint64), names: make(map[string]bool)}
	physical := uint64(0)
	for _, f := range r.sources {
		r.at[uint32(f.ID)] = physical
		physical += f.PhysicalRows
		r.live += f.LiveRows()
	}
	if physical >= noPlace {
		t.release(v)
		return nil, fmt.Errorf("%d rows: %w", physical, errs.ErrLimit)
	}
	r.places = make([]uint32, physical)
	return r, nil
}

// each visits columns of the sources in order. at is where the rows of rec lie in places.
func (r *reclustering) each(ctx context.Context, columns []int, visit func(at uint64, rec arrow.RecordBatch, live *arrowx.Mask) error) error {
	for _, f := range r.sources {
		first := r.at[uint32(f.ID)]
		err := eachBatch(ctx, r.b.ds, f, pick(r.b.fieldIDs, columns), r.t.o.BatchRows, func(off uint64, rec arrow.RecordBatch) error {
			if r.t.closing.Load() {
				return fmt.Errorf("table %s: %w", r.t.root, errs.ErrClosed)
			}
			return visit(first+off, rec, r.b.liveMask(uint32(f.ID), uint32(off), int(rec.NumRows())))
		})
		if err != nil {
			return fmt.Errorf("read fragment %d: %w", f.ID, err)
		}
	}
	return nil
}

// arrange finds the new place of every row.
func (r *reclustering) arrange(ctx context.Context) error {
	bounds, err := r.bounds(ctx)
	if err != nil {
		return err
	}
	counts := make([]uint64, len(bounds)+1)
	cols := positions(len(r.o.Columns))
	err = r.each(ctx, r.o.Columns, func(at uint64, rec arrow.RecordBatch, live *arrowx.Mask) error {
		keys, err := r.enc.Batch(rec, cols)
		if err != nil {
			return err
		}
		for i, k := range keys {
			if !live.Get(i) {
				r.places[at+uint64(i)] = noPlace
				continue
			}
			bucket := sort.Search(len(bounds), func(n int) bool { return bounds[n] > k })
			r.places[at+uint64(i)] = uint32(bucket)
			counts[bucket]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.cut(counts)
	if r.o.Publish && len(r.ends) > table.PartitionDestinationsMax {
		return fmt.Errorf("%d fragments: %w", len(r.ends), errs.ErrLimit)
	}
	next := make([]uint32, len(counts)) // place of the next row of each bucket
	before := uint64(0)
	for i, n := range counts {
		next[i] = uint32(before)
		before += n
	}
	for i, bucket := range r.places {
		if bucket != noPlace {
			r.places[i] = next[bucket]
			next[bucket]++
		}
	}
	return nil
}

// positions lists 0 to n-1.
func positions(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// bounds divides the values of a sample: bucket i holds the keys below bounds[i] that those before it do not.
func (r *reclustering) bounds(ctx context.Context) ([]rowkey.Key, error) {
	want := uint64(min(max(sampleKeys*r.o.Buckets, sampleMin), sampleMax))
	step := max(1, r.live/want)
	var keys []rowkey.Key
	seen := uint64(0)
	cols := positions(len(r.o.Columns))
	err := r.each(ctx, r.o.Columns, func(_ uint64, rec arrow.RecordBatch, live *arrowx.Mask) error {
		all, err := r.enc.Batch(rec, cols)
		if err != nil {
			return err
		}
		for i, k := range all {
			if !live.Get(i) {
				continue
			}
			if seen%step == 0 {
				keys = append(keys, k)
			}
			seen++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	var bounds []rowkey.Key
	for i := 1; i < r.o.Buckets; i++ {
		if k := keys[len(keys)*i/r.o.Buckets]; k > keys[0] && (len(bounds) == 0 || k > bounds[len(bounds)-1]) {
			bounds = append(bounds, k)
		}
	}
	return bounds, nil
}

// cut divides buckets of so many rows into fragments: whole buckets as long as they fit, published each its own.
func (r *reclustering) cut(counts []uint64) {
	full := uint64(r.rows)
	at, filled := uint64(0), uint64(0)
	end := func() {
		if filled > 0 {
			r.ends, filled = append(r.ends, at), 0
		}
	}
	for _, n := range counts {
		if r.o.Publish || filled+n > full {
			end()
		}
		for n > 0 {
			some := min(n, full-filled)
			at, filled, n = at+some, filled+some, n-some
			if filled == full {
				end()
			}
		}
	}
	end()
}

// addr is where the row of a place lies.
func (r *reclustering) addr(place uint32) rowaddr.Addr {
	i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > uint64(place) })
	begin := uint64(0)
	if i > 0 {
		begin = r.ends[i-1]
	}
	return rowaddr.New(uint32(r.first)+uint32(i), uint32(uint64(place)-begin))
}

// moved returns the new address of a row of a source; ok is false if it was deleted before. source says whether at lies in
// one at all.
func (r *reclustering) moved(at rowaddr.Addr) (to rowaddr.Addr, source, ok bool) {
	first, source := r.at[at.Fragment()]
	if !source {
		return at, false, true
	}
	if uint64(at.Offset()) >= r.b.byID[at.Fragment()].PhysicalRows {
		return 0, true, false
	}
	place := r.places[first+uint64(at.Offset())]
	if place == noPlace {
		return 0, true, false
	}
	return r.addr(place), true, true
}

// destinations is the ids of the new fragments.
func (r *reclustering) destinations() *roaring.Bitmap {
	out := roaring.New()
	out.AddRange(r.first, r.first+uint64(len(r.ends)))
	return out
}

// reserve takes the ids of the destinations, so that what is written stays right whatever is committed meanwhile.
func (r *reclustering) reserve(ctx context.Context, h Hooks) error {
	t := r.t
	t.mergeMu.Lock()
	defer t.mergeMu.Unlock()
	for range rewriteAttemptsMax {
		if _, err := t.adopt(ctx, h); err != nil {
			return fmt.Errorf("adopt outside commits: %w", err)
		}
		cur, err := t.newest()
		if err != nil {
			return err
		}
		next, err := cur.base.ds.Commit(ctx, table.ReserveFragments{Count: uint32(len(r.ends))})
		if err == nil {
			r.first = cur.base.ds.NextFragmentID()
			err = t.takeIn(ctx, h, cur, next, 1, stays(cur.base))
			t.release(cur)
			return err
		}
		t.release(cur)
		if !errors.Is(err, errs.ErrConflict) {
			return fmt.Errorf("reserve fragments: %w", err)
		}
	}
	return fmt.Errorf("reserve fragments: %w", errs.ErrConflict)
}

// copyRows writes the destinations.
func (r *reclustering) copyRows(ctx context.Context) (err error) {
	if r.zones, err = r.t.newZoneFeed(r.b); err != nil {
		return err
	}
	r.sink = &fragmentSink{ds: r.b.ds, rows: r.rows, feeds: []rowFeed{r.zones}}
	defer r.sink.abort()
	scans := r.scanBuilders(ctx)
	for _, s := range scans {
		r.sink.feeds = append(r.sink.feeds, s)
		defer s.abort()
	}
	window, err := r.window(ctx)
	if err != nil {
		return err
	}
	for from := uint64(0); from < r.live; from += window {
		if err := r.gather(ctx, from, min(from+window, r.live)); err != nil {
			return err
		}
	}
	for _, s := range scans {
		entry, ok, err := s.write()
		if err != nil {
			return err
		}
		if ok {
			r.added, r.names[s.def.Name] = append(r.added, entry), true
		}
	}
	if r.o.Publish {
		return r.writeRowMap(ctx)
	}
	return nil
}

// scanBuilders returns a builder for each BITMAP and BLOOMFILTER index that the table keeps or that somebody else made;
// published, bitmaps follow through the history.
func (r *reclustering) scanBuilders(ctx context.Context) []*scanBuilder {
	defs := slices.Clone(r.t.tuning().Indexes)
	for c, segs := range r.b.scans {
		for _, s := range segs {
			if !slices.ContainsFunc(defs, func(d ScanIndex) bool { return d.Name == s.entry.Name }) {
				defs = append(defs, ScanIndex{Name: s.entry.Name, Column: c, Kind: s.kind})
			}
		}
	}
	kinds := []indexes.Kind{indexes.Bloom}
	if !r.o.Publish {
		kinds = append(kinds, indexes.Bitmap)
	}
	return r.t.buildersOf(ctx, r.b, uint32(r.first), defs, kinds)
}

// window is how many rows are put in order at a time.
func (r *reclustering) window(ctx context.Context) (uint64, error) {
	var bytes, rows int64
	stop := errors.New("enough")
	err := r.each(ctx, positions(r.t.physical.NumFields()), func(_ uint64, rec arrow.RecordBatch, _ *arrowx.Mask) error {
		bytes, rows = bytes+arrowx.Bytes(rec), rows+rec.NumRows()
		if rows >= 1<<14 {
			return stop
		}
		return nil
	})
	if err != nil && !errors.Is(err, stop) {
		return 0, err
	}
	return uint64(max(gatherBytes/max(bytes/max(rows, 1), 1), int64(r.t.o.BatchRows))), nil
}

// gather writes the rows of places [from, to), which end no later than the last destination.
func (r *reclustering) gather(ctx context.Context, from, to uint64) error {
	var parts []arrow.RecordBatch
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	order := make([]int, to-from) // by place: row of the parts
	n := 0
	err := r.each(ctx, positions(r.t.physical.NumFields()), func(at uint64, rec arrow.RecordBatch, _ *arrowx.Mask) error {
		mask := arrowx.NewMask(int(rec.NumRows()))
		for i := range int(rec.NumRows()) {
			if p := uint64(r.places[at+uint64(i)]); p >= from && p < to {
				mask.Set(i)
				order[p-from] = n
				n++
			}
		}
		if mask.Count() == 0 {
			return nil
		}
		part, err := arrowx.FilterByMask(r.t.o.Alloc, rec, mask)
		if err == nil {
			parts = append(parts, part)
		}
		return err
	})
	if err != nil {
		return err
	}
	if n != len(order) {
		return fmt.Errorf("%d rows of %d: %w", n, len(order), errs.ErrConflict)
	}
	all, err := arrowx.Concat(r.t.o.Alloc, parts)
	if err != nil {
		return err
	}
	defer all.Release()
	for _, p := range parts {
		p.Release()
	}
	parts = nil
	for at := uint64(0); at < uint64(len(order)); {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Why cut at the ends of destinations: a fragment holds the rows that were planned for it, and no others.
		last := r.ends[len(r.sink.written)] - from
		end := min(at+uint64(r.t.o.BatchRows), uint64(len(order)), last)
		rec, err := arrowx.Take(r.t.o.Alloc, all, order[at:end])
		if err != nil {
			return err
		}
		err = r.sink.write(ctx, rec)
		rec.Release()
		if err == nil && end == last {
			err = r.sink.endFragment(ctx)
		}
		if err != nil {
			return err
		}
		at = end
		if r.o.Progress != nil {
			r.o.Progress(from+at, r.live)
		}
	}
	return nil
}

// writeRowMap publishes where the rows went.
func (r *reclustering) writeRowMap(ctx context.Context) error {
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("name a row map: %w", err)
	}
	w, err := fragreuse.NewRowMapWriter(ctx, store.NewDir(r.t.o.Store, r.t.root, r.t.o.Alloc), id, len(r.ends))
	if err != nil {
		return err
	}
	defer w.Abort()
	labels := make([]int32, 0, 1<<14)
	for rest := r.places; len(rest) > 0; {
		some := rest[:min(len(rest), cap(labels))]
		rest = rest[len(some):]
		labels = labels[:0]
		for _, p := range some {
			label := int32(fragreuse.Deleted)
			if p != noPlace {
				label = int32(uint64(r.addr(p).Fragment()) - r.first)
			}
			labels = append(labels, label)
		}
		if err := w.Append(labels); err != nil {
			return err
		}
	}
	r.partition, _, err = w.Finish(ctx)
	return err
}
