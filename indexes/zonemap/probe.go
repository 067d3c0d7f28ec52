package zonemap

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/internal/errs"
	"lancesql/internal/predicate"
)

// probe is a set of cells in the terms of zones: what of a zone makes it worth reading.
type probe struct {
	nulls  bool // NULLs
	nans   bool // NaNs
	low    bool // values down to the lowest: negative NaNs too, which the total order puts there
	others bool // ordinary values, hence zones that may have some nobody knows of
	keys   []keySpan
	texts  []textSpan
}

// keySpan is a closed run of keys. Spans ascend and do not overlap.
type keySpan struct{ lo, hi int64 }

// textSpan is a run of texts. Spans ascend and do not overlap.
type textSpan struct {
	lo, hi         string
	loOpen, hiOpen bool
	bounded        bool // hi is a bound
}

// probeOf translates a set of cells of a column of type t. errs.ErrInvalid for values of another Go type.
func probeOf(t arrow.DataType, r predicate.Ranges) (probe, error) {
	p := probe{nulls: r.Null, others: len(r.Intervals) > 0}
	f := formOf(t)
	for _, iv := range r.Intervals {
		var err error
		switch f {
		case formKey:
			err = p.addKeys(t, iv)
		case formText:
			err = p.addTexts(t, iv)
		}
		if err != nil {
			return probe{}, err
		}
		p.low = p.low || iv.Low == nil
	}
	return p, nil
}

func wrongType(t arrow.DataType, v any) error {
	return fmt.Errorf("a %T looked for in a zone map of %s: %w", v, t, errs.ErrInvalid)
}

func (p *probe) addKeys(t arrow.DataType, iv predicate.Interval) error {
	span := keySpan{math.MinInt64, math.MaxInt64}
	if isFloat(t) {
		span = keySpan{keyNegInf, keyPosInf}
		p.nans = p.nans || iv.High == nil
	}
	if iv.Low != nil {
		k, _, ok := keyOf(t, iv.Low)
		if !ok {
			return wrongType(t, iv.Low)
		}
		if isFloat(t) && !ordinaryKey(k) { // from NaN on: NaN alone
			p.nans = p.nans || !iv.LowOpen
			return nil
		}
		k = zeroKey(t, k, iv.LowOpen)
		if iv.LowOpen {
			if k == span.hi {
				return nil
			}
			k++
		}
		span.lo = k
	}
	if iv.High != nil {
		k, _, ok := keyOf(t, iv.High)
		if !ok {
			return wrongType(t, iv.High)
		}
		if isFloat(t) && !ordinaryKey(k) { // up to NaN: all ordinary values, and NaN if it is inside
			p.nans = p.nans || !iv.HighOpen
		} else {
			k = zeroKey(t, k, !iv.HighOpen)
			if iv.HighOpen {
				if k == span.lo {
					return nil
				}
				k--
			}
			span.hi = k
		}
	}
	if span.lo <= span.hi {
		p.keys = append(p.keys, span)
	}
	return nil
}

// zeroKey makes a bound of either zero the key of the greater or the lesser one, so that both lie on the same side.
func zeroKey(t arrow.DataType, k int64, greater bool) int64 {
	if isFloat(t) && (k == 0 || k == -1) {
		if greater {
			return 0
		}
		return -1
	}
	return k
}

func (p *probe) addTexts(t arrow.DataType, iv predicate.Interval) error {
	span := textSpan{loOpen: iv.LowOpen, hiOpen: iv.HighOpen}
	ok := true
	if iv.Low != nil {
		if _, span.lo, ok = keyOf(t, iv.Low); !ok {
			return wrongType(t, iv.Low)
		}
	}
	if iv.High != nil {
		if _, span.hi, ok = keyOf(t, iv.High); !ok {
			return wrongType(t, iv.High)
		}
		span.bounded = true
	}
	p.texts = append(p.texts, span)
	return nil
}

// masks are the zones with a property, one bit each, and the first bytes of text bounds.
type masks struct {
	bounds, unknown, nulls, nans, negs []uint64

	loHead, hiHead []uint64
}

func masksOf(z *zones) masks {
	words := (z.len() + 63) / 64
	all := make([]uint64, 5*words)
	cut := func() (m []uint64) { m, all = all[:words:words], all[words:]; return m }
	m := masks{bounds: cut(), unknown: cut(), nulls: cut(), nans: cut(), negs: cut()}
	set := func(mask []uint64, i int, on bool) {
		if on {
			mask[i>>6] |= 1 << uint(i&63)
		}
	}
	for i, f := range z.flags {
		set(m.bounds, i, f&flagBounds != 0)
		set(m.unknown, i, f&flagUnknown != 0)
		set(m.nulls, i, z.nulls[i] > 0)
		set(m.nans, i, z.nans[i] > 0)
		set(m.negs, i, z.nans[i] > 0 && (z.negs[i] > 0 || f&flagUnsigned != 0))
	}
	if z.form == formText {
		m.loHead, m.hiHead = make([]uint64, z.len()), make([]uint64, z.len())
		for i := range z.loText {
			m.loHead[i], m.hiHead[i] = head([]byte(z.loText[i])), head([]byte(z.hiText[i]))
		}
	}
	return m
}

func (m *masks) bytes() int64 { return int64(len(m.bounds)*5*8) + int64(len(m.loHead))*16 }

// hits returns the zones that may hold a cell of p.
func (s *Segment) hits(p *probe) []uint64 {
	out := make([]uint64, len(s.tests.bounds))
	z := &s.zones
	switch {
	case len(p.keys) == 1:
		hitOne(out, z.lo, z.hi, p.keys[0])
	case len(p.keys) > 1:
		hitMany(out, z.lo, z.hi, p.keys)
	case len(p.texts) > 0:
		s.hitTexts(out, p.texts)
	}
	t := &s.tests
	for w := range out {
		out[w] &= t.bounds[w]
		if p.others {
			out[w] |= t.unknown[w]
		}
		if p.nulls {
			out[w] |= t.nulls[w]
		}
		if p.nans {
			out[w] |= t.nans[w]
		}
		if p.low {
			out[w] |= t.negs[w]
		}
	}
	return out
}

// bit is compiled without a branch.
func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// hitOne has no branch in its loop: it runs over every zone.
func hitOne(out []uint64, lo, hi []int64, span keySpan) {
	for w := range out {
		los := lo[w*64 : min(w*64+64, len(lo))]
		his := hi[w*64 : min(w*64+64, len(hi))][:len(los)]
		var word uint64
		for i, l := range los {
			word |= (bit(l <= span.hi) & bit(his[i] >= span.lo)) << uint(i)
		}
		out[w] = word
	}
}

// hitMany looks, for each zone, for the first span that does not end before it.
func hitMany(out []uint64, lo, hi []int64, spans []keySpan) {
	for i, l := range lo {
		from, to := 0, len(spans)
		for from < to {
			if mid := (from + to) / 2; spans[mid].hi < l {
				from = mid + 1
			} else {
				to = mid
			}
		}
		if from < len(spans) && spans[from].lo <= hi[i] {
			out[i>>6] |= 1 << uint(i&63)
		}
	}
}

func (s *Segment) hitTexts(out []uint64, spans []textSpan) {
	z := &s.zones
	if len(spans) == 1 {
		span := spans[0]
		loHead, hiHead := head([]byte(span.lo)), head([]byte(span.hi))
		if !span.bounded {
			hiHead = math.MaxUint64
		}
		for i, l := range s.tests.loHead {
			if l <= hiHead && s.tests.hiHead[i] >= loHead && span.endsAfter(z.loText[i]) && span.beginsBefore(z.hiText[i]) {
				out[i>>6] |= 1 << uint(i&63)
			}
		}
		return
	}
	for i, l := range z.loText {
		from, to := 0, len(spans)
		for from < to {
			if mid := (from + to) / 2; !spans[mid].endsAfter(l) {
				from = mid + 1
			} else {
				to = mid
			}
		}
		if from < len(spans) && spans[from].beginsBefore(z.hiText[i]) {
			out[i>>6] |= 1 << uint(i&63)
		}
	}
}

// endsAfter reports whether values from lo on can be in the span.
func (s textSpan) endsAfter(lo string) bool {
	return !s.bounded || lo < s.hi || lo == s.hi && !s.hiOpen
}

// beginsBefore reports whether values up to hi can be in the span.
func (s textSpan) beginsBefore(hi string) bool {
	return hi > s.lo || hi == s.lo && !s.loOpen
}
