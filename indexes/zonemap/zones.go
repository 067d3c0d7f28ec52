package zonemap

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
)

// flags say what a zone's bounds are worth.
type flags uint8

const (
	// flagBounds: lo and hi are the bounds of the ordinary values. Without it there are none, or flagUnknown is set.
	flagBounds flags = 1 << iota
	// flagUnknown: the zone may have ordinary values that no bounds tell of.
	flagUnknown
	// flagHidden: the greatest ordinary value is not known, hi is +inf; version 0 writes NaN in its place.
	flagHidden
	// flagUnsigned: how many of the NaNs are negative is not known.
	flagUnsigned
)

// zones holds zone records column by column; all slices that a form uses have one entry per zone.
type zones struct {
	form     form
	fragment []uint32 // empty in the statistics of a single fragment
	start    []uint64 // physical offset of the first row
	length   []uint64 // physical rows from the first to the last one, deleted ones between them included
	nulls    []uint32
	nans     []uint32
	negs     []uint32 // of the NaNs
	flags    []flags
	lo, hi   []int64  // formKey
	loText   []string // formText
	hiText   []string
}

func (z *zones) len() int { return len(z.start) }

// keep drops the zones for which ok is false.
func (z *zones) keep(ok func(i int) bool) {
	var index []int
	for i := range z.start {
		if ok(i) {
			index = append(index, i)
		}
	}
	*z = z.take(index)
}

// take returns the zones at index, in that order.
func (z *zones) take(index []int) zones {
	out := zones{form: z.form}
	for _, i := range index {
		out.appendFrom(z, i)
	}
	return out
}

// appendFrom appends zone i of o, which has the same form.
func (z *zones) appendFrom(o *zones, i int) {
	if len(o.fragment) > 0 {
		z.fragment = append(z.fragment, o.fragment[i])
	}
	z.start = append(z.start, o.start[i])
	z.length = append(z.length, o.length[i])
	z.nulls = append(z.nulls, o.nulls[i])
	z.nans = append(z.nans, o.nans[i])
	z.negs = append(z.negs, o.negs[i])
	z.flags = append(z.flags, o.flags[i])
	switch z.form {
	case formKey:
		z.lo, z.hi = append(z.lo, o.lo[i]), append(z.hi, o.hi[i])
	case formText:
		z.loText, z.hiText = append(z.loText, o.loText[i]), append(z.hiText, o.hiText[i])
	}
}

// appendRunning ends a zone.
func (z *zones) appendRunning(r *running, start, length uint64, t arrow.DataType, boundBytesMax int) {
	z.start = append(z.start, start)
	z.length = append(z.length, length)
	z.nulls = append(z.nulls, r.nulls)
	z.nans = append(z.nans, r.nans)
	z.negs = append(z.negs, r.negs)
	f := flags(0)
	if r.has {
		f = flagBounds
	}
	switch z.form {
	case formNone:
		if r.rows > uint64(r.nulls) {
			f = flagUnknown
		}
	case formKey:
		z.lo, z.hi = append(z.lo, r.lo), append(z.hi, r.hi)
	case formText:
		lo, hi := string(r.loText), string(r.hiText)
		if !isDecimal(t) {
			isText := t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING
			lo, hi = shortenLow(lo, boundBytesMax, isText), shortenHigh(hi, boundBytesMax, isText)
		}
		z.loText, z.hiText = append(z.loText, lo), append(z.hiText, hi)
	}
	z.flags = append(z.flags, f)
}

// shortenLow returns a text of at most limit bytes that is not above s.
func shortenLow(s string, limit int, isText bool) string {
	if len(s) <= limit {
		return s
	}
	for isText && limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// shortenHigh returns a text of about limit bytes that is not below s, s itself if there is no shorter one.
func shortenHigh(s string, limit int, isText bool) string {
	if len(s) <= limit {
		return s
	}
	if !isText {
		for n := limit; n > 0; n-- {
			if s[n-1] != 0xff {
				return s[:n-1] + string([]byte{s[n-1] + 1})
			}
		}
		return s
	}
	// The greatest text that begins with the same characters is below the one whose last character is the next one.
	for p := shortenLow(s, limit, true); len(p) > 0; {
		r, n := utf8.DecodeLastRuneInString(p)
		p = p[:len(p)-n]
		switch {
		case r == utf8.RuneError && n <= 1: // no text: leave it alone
			return s
		case r == 0xd7ff: // surrogates are no characters
			return p + "\ue000"
		case r < utf8.MaxRune:
			return p + string(r+1)
		}
	}
	return s
}

// check reports what no writer makes: zones that overlap or are out of order, counts above the rows, bounds the wrong
// way round. object names the file.
func (z *zones) check(object string) error {
	for i := range z.start {
		if z.start[i] > math.MaxUint32 || z.length[i] > math.MaxUint32+1-z.start[i] {
			return errs.Corrupt(object, -1, "zone %d covers %d rows from %d", i, z.length[i], z.start[i])
		}
		if counted := uint64(z.nulls[i]) + uint64(z.nans[i]); counted > z.length[i] || z.negs[i] > z.nans[i] {
			return errs.Corrupt(object, -1, "zone %d of %d rows has %d nulls, %d NaNs, %d of them negative", i, z.length[i], z.nulls[i], z.nans[i], z.negs[i])
		}
		if z.flags[i]&flagBounds != 0 && (z.form == formKey && z.lo[i] > z.hi[i] || z.form == formText && z.loText[i] > z.hiText[i]) {
			return errs.Corrupt(object, -1, "zone %d has its minimum above its maximum", i)
		}
		if i == 0 {
			continue
		}
		same := len(z.fragment) == 0 || z.fragment[i] == z.fragment[i-1]
		if same && z.start[i] < z.start[i-1]+z.length[i-1] {
			return errs.Corrupt(object, -1, "zone %d begins at %d, inside the one before", i, z.start[i])
		}
	}
	return nil
}

// sort orders zones by fragment and start; files of other writers may be in another order.
func (z *zones) sort() {
	before := func(a, b int) bool {
		return z.fragment[a] < z.fragment[b] || z.fragment[a] == z.fragment[b] && z.start[a] < z.start[b]
	}
	index := make([]int, z.len())
	sorted := true
	for i := range index {
		index[i] = i
		sorted = sorted && (i == 0 || !before(i, i-1))
	}
	if sorted {
		return
	}
	slices.SortStableFunc(index, func(a, b int) int {
		switch {
		case before(a, b):
			return -1
		case before(b, a):
			return 1
		}
		return 0
	})
	*z = z.take(index)
}

// exact reports whether the zones can be written as version 1: no maximum is hidden, the signs of NaNs are known.
func (z *zones) exact() error {
	for i, f := range z.flags {
		if f&(flagHidden|flagUnsigned) != 0 {
			return fmt.Errorf("zone %d hides its maximum or the signs of its NaNs: %w", i, errs.ErrInvalid)
		}
	}
	return nil
}

// bytes estimates the memory of z.
func (z *zones) bytes() int64 {
	n := int64(len(z.fragment))*4 + int64(z.len())*(8+8+4+4+4+1) + int64(len(z.lo))*16
	for i := range z.loText {
		n += int64(len(z.loText[i])+len(z.hiText[i])) + 32
	}
	return n
}
