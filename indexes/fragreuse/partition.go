package fragreuse

import (
	"context"

	"lancesql/lance/rowaddr"
)

// request is an address at a stable partition: a place in the list of addresses, and a row of a block of labels.
type request struct {
	row uint32 // in the block
	at  int
}

// partitions takes the addresses at the given places through the stable partition each has come to. Each block of labels
// is read once.
// Spec: Fragment Reuse Index, "Address Translation".
func (t *Translation) partitions(ctx context.Context, addrs []rowaddr.Addr, places []int) error {
	// Blocks of all partitions are numbered through, and the requests sorted by block by counting.
	steps, first := []*step{}, []uint64{0} // first block of each step
	number := make(map[*step]int)
	slot := func(s *step) int {
		k, ok := number[s]
		if !ok {
			k = len(steps)
			number[s] = k
			steps, first = append(steps, s), append(first, first[k]+s.rows.counts.blocks())
		}
		return k
	}
	type place struct {
		block uint64
		request
	}
	list := make([]place, 0, len(places))
	var last *step
	var k int
	for _, i := range places {
		a := addrs[i]
		x := t.target(a.Fragment())
		if a.Offset() >= x.step.Sources[x.index].PhysicalRows {
			addrs[i] = Gone // no address of the fragment: nothing leads on from here
			continue
		}
		if x.step != last {
			last, k = x.step, slot(x.step)
		}
		row, size := x.step.before[x.index]+uint64(a.Offset()), x.step.rows.counts.blockRows
		list = append(list, place{first[k] + row/size, request{uint32(row % size), i}})
	}
	ends := make([]int, first[len(steps)]+1)
	for _, p := range list {
		ends[p.block+1]++
	}
	for b := 1; b < len(ends); b++ {
		ends[b] += ends[b-1]
	}
	sorted := make([]request, len(list))
	for _, p := range list { // ends[b] is where block b begins, then where it ends
		sorted[ends[p.block]] = p.request
		ends[p.block]++
	}
	from := 0
	for k, s := range steps {
		for b := first[k]; b < first[k+1]; b++ {
			part := sorted[from:ends[b]]
			from = ends[b]
			if len(part) == 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			labels, err := s.rows.block(ctx, b-first[k])
			if err != nil {
				return err
			}
			for _, q := range part {
				addrs[q.at] = s.rows.addr(labels, q.row)
			}
		}
	}
	return nil
}
