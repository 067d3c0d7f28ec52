package lsm

// Pending counts the rows that are not in the base: in MemTables and in generations not yet merged. Rows that a newer
// one replaced and delete rows count; it is 0 exactly when the base alone is the table.
func (t *Table) Pending() uint64 {
	v, err := t.newest()
	if err != nil {
		return 0
	}
	defer t.release(v)
	rows := uint64(0)
	for g := range v.all() {
		if g.mem != nil {
			rows += uint64(g.mem.Rows())
		} else {
			rows += g.frag.PhysicalRows
		}
	}
	return rows
}
