package fragreuse

import (
	"cmp"
	"context"
	"slices"

	"lancesql/lance/rowaddr"
)

// request is an address at a stable partition: a place in the list of addresses and a row of the labels.
type request struct {
	step *step
	row  uint64
	at   int
}

// partitions takes the addresses at the given places through the stable partition each has come to. Each block of labels
// is read once.
// Spec: Fragment Reuse Index, "Address Translation".
func (t *Translation) partitions(ctx context.Context, addrs []rowaddr.Addr, places []int) error {
	order := make(map[*step]int)
	list := make([]request, 0, len(places))
	for _, i := range places {
		a := addrs[i]
		x := t.target(a.Fragment())
		if a.Offset() >= x.step.Sources[x.index].PhysicalRows {
			// Not an address of the fragment; nothing leads on from here.
			addrs[i] = Gone
			continue
		}
		if _, ok := order[x.step]; !ok {
			order[x.step] = len(order)
		}
		list = append(list, request{x.step, x.step.before[x.index] + uint64(a.Offset()), i})
	}
	slices.SortFunc(list, func(a, b request) int {
		return cmp.Or(cmp.Compare(order[a.step], order[b.step]), cmp.Compare(a.row, b.row))
	})
	var of *step
	var have *block
	var at uint64
	for _, q := range list {
		m := q.step.rows
		k := q.row / m.counts.blockRows
		if of != q.step || at != k {
			if err := ctx.Err(); err != nil {
				return err
			}
			b, err := m.block(ctx, k)
			if err != nil {
				return err
			}
			of, have, at = q.step, b, k
		}
		addrs[q.at] = m.addr(have, q.row-k*m.counts.blockRows)
	}
	return nil
}
