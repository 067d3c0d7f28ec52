package lsm

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/arrow/array"

	"lancesql/indexes/btree"
	"lancesql/indexes/store"
	"lancesql/internal/errs"
	"lancesql/internal/rowkey"
	"lancesql/lance/rowaddr"
)

// hashedKey stands for a key and the row it is of. Why hashes: keys may be long and rows many. Two random hashes of 64
// bits agree for two different keys with a probability below 2^-80 over any table that fits a disk; what is reported
// is compared again by value.
type hashedKey struct {
	a, b uint64
	row  uint64
}

const hashedKeyBytes = 24

// keyHasher hashes keys with seeds of its own.
type keyHasher struct{ a, b maphash.Seed }

func newKeyHasher() keyHasher { return keyHasher{a: maphash.MakeSeed(), b: maphash.MakeSeed()} }

func (h keyHasher) of(k rowkey.Key, row uint64) hashedKey {
	return hashedKey{a: maphash.String(h.a, string(k)), b: maphash.String(h.b, string(k)), row: row}
}

func sortHashed(list []hashedKey) {
	slices.SortFunc(list, func(x, y hashedKey) int {
		return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b), cmp.Compare(x.row, y.row))
	})
}

// runs visits the stretches of equal keys of a sorted list.
func runs(list []hashedKey, visit func(run []hashedKey) error) error {
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j].a == list[i].a && list[j].b == list[i].b {
			j++
		}
		if err := visit(list[i:j]); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// inPasses calls fill as often as the memory for n keys asks for, each time for another part of the keys, and visits
// the stretches of equal keys. fill gives every key to keep.
func (c *tableCheck) inPasses(n uint64, fill func(keep func(k rowkey.Key, row uint64)) error, visit func(run []hashedKey) error) error {
	most := uint64(max(c.o.MemoryBytes/hashedKeyBytes, 1024))
	passes := n/most + 1
	h := newKeyHasher()
	list := make([]hashedKey, 0, min(n, most))
	for pass := range passes {
		list = list[:0]
		err := fill(func(k rowkey.Key, row uint64) {
			if e := h.of(k, row); passes == 1 || e.a%passes == pass {
				list = append(list, e)
			}
		})
		if err != nil {
			return err
		}
		sortHashed(list)
		if err := runs(list, visit); err != nil {
			return err
		}
	}
	return nil
}

// baseKeys checks that no key is alive twice in the base.
func (c *tableCheck) baseKeys() error {
	if c.t == nil || c.t.keyless() {
		return nil
	}
	ids, err := fieldIDs(c.ds, c.t.physical)
	if err != nil {
		return c.problem(c.root, err)
	}
	primary := &primaryCheck{c: c, h: newKeyHasher()}
	if err := primary.open(ids); err != nil {
		return err
	}
	defer primary.close()
	err = c.inPasses(c.ds.CountRows(), func(keep func(rowkey.Key, uint64)) error {
		first := !primary.summed
		primary.summed = true
		for i, f := range c.ds.Fragments() {
			if i%16 == 0 {
				c.o.Progress(c.root + ": keys")
			}
			dv, err := c.ds.Deletions(c.ctx, f)
			if err != nil {
				return err
			}
			err = c.t.eachKey(c.ctx, c.ds, f, ids, false, func(from uint64, keys []rowkey.Key, _ *array.Boolean) error {
				for i, k := range keys {
					off := uint32(from) + uint32(i)
					if dv != nil && dv.Contains(off) {
						continue
					}
					at := rowaddr.New(uint32(f.ID), off)
					keep(k, uint64(at))
					if first {
						primary.add(k, at)
					}
				}
				return c.ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, func(run []hashedKey) error {
		if len(run) == 1 {
			return nil
		}
		c.listed["keys that are alive twice in the base"]++
		if c.listed["keys that are alive twice in the base"] > checkListMax {
			return nil
		}
		return c.reportTwice(run)
	})
	if err != nil {
		return c.problem(c.root, err)
	}
	return primary.compare()
}

// reportTwice names a key and its rows.
func (c *tableCheck) reportTwice(run []hashedKey) error {
	var addrs []rowaddr.Addr
	var at []string
	for _, h := range run {
		a := rowaddr.Addr(h.row)
		addrs = append(addrs, a)
		at = append(at, fmt.Sprintf("%d:%d", a.Fragment(), a.Offset()))
	}
	names := make([]string, len(c.t.keyCols))
	for i, k := range c.t.keyCols {
		names[i] = c.t.physical.Field(k).Name
	}
	rec, err := c.ds.TakeAddresses(c.ctx, names, addrs[:2])
	if err != nil {
		return err
	}
	defer rec.Release()
	values := make([]string, len(names))
	for i := range names {
		if rec.Column(i).ValueStr(0) != rec.Column(i).ValueStr(1) {
			return nil // hashes agreed, keys do not
		}
		values[i] = clip(rec.Column(i).ValueStr(0))
	}
	c.add(Error, c.root, "key (%s) is alive %d times in the base, rows %s (fragment:offset)", strings.Join(values, ", "), len(run), strings.Join(at[:min(len(at), 5)], ", "))
	return nil
}

// clip bounds a value in a message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// generationKeys checks the deletion vector of a generation against its keys, and that they belong to the shard; sound
// is false if the keys cannot be judged.
func (s *shardCheck) generationKeys(g *generation) (sound bool, err error) {
	if s.t.keyless() {
		return s.generationRows(g)
	}
	h := newKeyHasher()
	list := make([]hashedKey, 0, g.frag.PhysicalRows)
	strangers := 0
	err = s.t.eachKey(s.ctx, g.ds, g.frag, g.fieldIDs, true, func(first uint64, keys []rowkey.Key, _ *array.Boolean) error {
		for i, k := range keys {
			list = append(list, h.of(k, first+uint64(i)))
		}
		if s.sh.manual {
			return s.ctx.Err()
		}
		n, _, err := s.sharder.strangers(s.dir.id, len(keys), byKey(keys))
		strangers += n
		return errors.Join(err, s.ctx.Err())
	})
	if err != nil {
		return false, err
	}
	if strangers > 0 {
		s.add(Error, g.ds.Root(), "%d rows belong to other shards: a key could lie in two", strangers)
	}
	if err := s.keySidecar(g, h, list); err != nil {
		return false, err
	}
	sortHashed(list)
	want := roaring.New()
	err = runs(list, func(run []hashedKey) error {
		for _, older := range run[:len(run)-1] {
			want.Add(uint32(older.row))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	have, err := g.ds.Deletions(s.ctx, g.frag)
	if err != nil {
		return false, nil // reported with the fragment
	}
	if have == nil {
		have = roaring.New()
	}
	if lost := roaring.AndNot(have, want); !lost.IsEmpty() {
		s.add(Error, g.ds.Root(), "the deletion vector hides %d rows that are the newest of their keys, the first at %d", lost.GetCardinality(), lost.Minimum())
	}
	if stale := roaring.AndNot(want, have); !stale.IsEmpty() {
		s.add(Error, g.ds.Root(), "the deletion vector leaves %d rows that a newer row of the generation replaces, the first at %d", stale.GetCardinality(), stale.Minimum())
	}
	return true, nil
}

// manualKeys checks that no key lies in generations of two shards, where shards made by hand allow it to.
func (c *tableCheck) manualKeys() error {
	manual, n := false, uint64(0)
	for _, g := range c.gens {
		manual = manual || g.sh.manual
		n += g.frag.PhysicalRows
	}
	if !manual || c.t.keyless() {
		return nil
	}
	err := c.inPasses(n, func(keep func(rowkey.Key, uint64)) error {
		for _, g := range c.gens {
			err := c.t.eachKey(c.ctx, g.ds, g.frag, g.fieldIDs, false, func(_ uint64, keys []rowkey.Key, _ *array.Boolean) error {
				for _, k := range keys {
					keep(k, uint64(g.sh.ordinal))
				}
				return c.ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, func(run []hashedKey) error {
		if run[0].row != run[len(run)-1].row {
			c.some(Error, "keys in generations of two shards", c.root, "a key lies in generations of two shards: nothing says which row is the newer")
		}
		return nil
	})
	return c.problem(c.root, err)
}

// mixed combines a key and its row into one number, so that sums over two sets of pairs agree only if the sets do.
func (e hashedKey) mixed() uint64 {
	const odd = 0x9e3779b97f4a7c15
	return (e.a ^ e.row*odd) * (e.b | 1)
}

// keySidecar checks that the `_pk_index` of a generation, which it need not have, holds its keys, all and in order.
func (s *shardCheck) keySidecar(g *generation, h keyHasher, list []hashedKey) error {
	dir := g.ds.Root() + "/" + btree.PKDir
	typ, err := s.t.pkType()
	if err != nil {
		return err
	}
	pk, err := btree.OpenPK(s.ctx, store.NewDir(s.st, dir, s.t.o.Alloc), typ, g.frag.PhysicalRows, nil)
	if errors.Is(err, errs.ErrNotFound) {
		return nil
	}
	if err != nil {
		return s.problem(dir, err)
	}
	defer pk.Close()
	want, have, n := uint64(0), uint64(0), 0
	for _, e := range list {
		want += e.mixed()
	}
	var last rowkey.Key
	falls := false
	err = pk.Index().Tuples(s.ctx, len(s.t.keyCols) > 1, "", "", func(k rowkey.Key, id uint64) (bool, error) {
		falls = falls || k < last
		last = k
		have += h.of(k, id).mixed()
		n++
		return true, s.ctx.Err()
	})
	switch {
	case err != nil:
		return s.problem(dir, err)
	case falls:
		s.add(Error, dir, "its keys are not in order: look-ups miss rows")
	case n != len(list) || want != have:
		s.add(Error, dir, "does not hold the keys of the generation (%d entries, %d rows): look-ups miss rows", n, len(list))
	}
	return nil
}
