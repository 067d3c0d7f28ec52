package encoding

// Loops over the levels of leaves and chunks. They have no branches on levels, which no processor can guess.

// atLeast returns 1 if a >= b, else 0.
func atLeast(a, b uint16) int { return int((uint32(b) - uint32(a) - 1) >> 31) }

// rowStarts counts the levels that are equal to top, the greatest allowed; ok is false if one is greater.
func rowStarts(rep []uint16, top uint16) (n int, ok bool) {
	var greatest uint16
	for _, r := range rep {
		n += atLeast(r, top)
		greatest = max(greatest, r)
	}
	return n, greatest <= top
}

// span of levels: the entries that are slots of a layer have a repetition level of at least minRep and a definition
// level of at most maxDef. Absent levels are 0.
type slotRule struct{ minRep, maxDef uint16 }

// is returns 1 for a slot, else 0.
func (r slotRule) is(rep, def uint16) int { return atLeast(rep, r.minRep) & atLeast(r.maxDef, def) }

// countSlots counts the slots among n entries; rep and def may be empty.
func countSlots(rep, def []uint16, n int, rule slotRule) (slots int) {
	switch {
	case len(rep) == 0 && len(def) == 0:
		return n * rule.is(0, 0)
	case len(def) == 0:
		for _, r := range rep {
			slots += atLeast(r, rule.minRep)
		}
		return slots
	case len(rep) == 0 || rule.minRep == 0:
		for _, d := range def {
			slots += atLeast(rule.maxDef, d)
		}
		return slots * atLeast(0, rule.minRep)
	}
	rep = rep[:len(def)]
	for i, d := range def {
		slots += rule.is(rep[i], d)
	}
	return slots
}

// slotBits writes one bit per slot, 0 where the definition level is null or greater but not empty, and counts those. out
// has room for len(def) bits; rep may be empty.
func slotBits(out []byte, rep, def []uint16, rule slotRule, null, empty uint16) (slots, nulls int) {
	var word uint64
	for i, d := range def {
		var r uint16
		if len(rep) > 0 {
			r = rep[i]
		}
		slot := rule.is(r, d)
		missing := atLeast(d, null) &^ (atLeast(d, empty) & atLeast(empty, d)) & slot
		word |= uint64(slot&^missing) << (slots & 63)
		slots, nulls = slots+slot, nulls+missing
		if slots&63 == 0 && slot == 1 {
			putWord(out[slots/8-8:], word)
			word = 0
		}
	}
	for at := slots &^ 63; at < slots; at += 8 {
		out[at/8] = byte(word >> (at & 63))
	}
	return slots, nulls
}

func putWord(b []byte, word uint64) {
	_ = b[7]
	for i := range 8 {
		b[i] = byte(word >> (8 * i))
	}
}

// slotEnds writes for each slot of the outer layer the slots of the inner one before it, and their total last. out has
// one element more than there are outer slots; rep has all entries, def too or none. It returns the total.
func slotEnds[T uint32 | uint64](out []T, rep, def []uint16, outer, inner slotRule) int {
	at, n := 0, 0
	for i, r := range rep {
		var d uint16
		if len(def) > 0 {
			d = def[i]
		}
		out[at] = T(n) // overwritten until the slot begins
		at += outer.is(r, d)
		n += inner.is(r, d)
	}
	out[at] = T(n)
	return n
}
