package history

import (
	"fmt"
	"strings"
)

// Appended is a transaction that appended its number to lists and read others.
type Appended struct {
	ID        int
	Committed bool
	Writes    map[int]int    // how often it appended to each list
	Reads     map[int]string // what it read of each list, before it wrote there: numbers, a blank after each
}

// CheckAppends looks for G0 (cycles of writes), G1a (reads of what was rolled back), G1b (reads of what was not the last
// write of a transaction) and G1c (cycles of writes and reads). final is the lists as they are in the end, which say in which
// order the writes happened; what they hold of uncommitted transactions is an error as well, and what they lack of committed
// ones.
func CheckAppends(history []*Appended, final []string) error {
	byID := map[string]*Appended{}
	for _, x := range history {
		byID[fmt.Sprint(x.ID)] = x
	}
	edges := map[*Appended]map[*Appended]bool{}
	follows := func(a, b *Appended) {
		if a == b {
			return
		}
		if edges[a] == nil {
			edges[a] = map[*Appended]bool{}
		}
		edges[a][b] = true
	}
	counts := map[[2]int]int{}
	for k, s := range final {
		var last *Appended
		for _, id := range strings.Fields(s) {
			x := byID[id]
			if x == nil || !x.Committed {
				return fmt.Errorf("list %d holds %s, which was not committed", k, id)
			}
			counts[[2]int{x.ID, k}]++
			if last != nil {
				follows(last, x)
			}
			last = x
		}
	}
	for _, x := range history {
		if !x.Committed {
			continue
		}
		for k, n := range x.Writes {
			if counts[[2]int{x.ID, k}] != n {
				return fmt.Errorf("transaction %d appended %d times to list %d, %d are there", x.ID, n, k, counts[[2]int{x.ID, k}])
			}
		}
		for k, s := range x.Reads {
			if !strings.HasPrefix(final[k], s) {
				return fmt.Errorf("transaction %d read of list %d what never was committed: %q (G1a)", x.ID, k, s)
			}
			ids := strings.Fields(s)
			if len(ids) == 0 {
				continue
			}
			writer := byID[ids[len(ids)-1]]
			seen := 0
			for _, id := range ids {
				if id == ids[len(ids)-1] {
					seen++
				}
			}
			if seen != writer.Writes[k] {
				return fmt.Errorf("transaction %d read %d of %d writes of transaction %d to list %d (G1b)", x.ID, seen, writer.Writes[k], writer.ID, k)
			}
			follows(writer, x)
		}
	}
	return findCycle(edges)
}

// findCycle returns an error if the graph has a cycle (G0, G1c).
func findCycle(edges map[*Appended]map[*Appended]bool) error {
	state := map[*Appended]int{} // 1: on the path, 2: done
	var walk func(x *Appended) error
	walk = func(x *Appended) error {
		state[x] = 1
		for y := range edges[x] {
			if state[y] == 1 {
				return fmt.Errorf("transactions %d and %d each come after the other (G0, G1c)", x.ID, y.ID)
			}
			if state[y] == 0 {
				if err := walk(y); err != nil {
					return err
				}
			}
		}
		state[x] = 2
		return nil
	}
	for x := range edges {
		if state[x] == 0 {
			if err := walk(x); err != nil {
				return err
			}
		}
	}
	return nil
}
