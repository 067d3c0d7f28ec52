package encoding

import (
	"lancesql/lance/pb"
)

// encodeZippedLeaf encodes a page of wide values, or of levels too many for chunks.
func encodeZippedLeaf(v *Vector, lv *levelWriter, o PageOptions) (Page, error) {
	if v.typ.Key > 0 || len(v.typ.Fields) > 0 {
		return Page{}, unsupported("a list row of %d dictionary or packed values", lv.n)
	}
	l := &pb.FullZipLayout{BitsRep: uint32(lv.repBits()), BitsDef: uint32(lv.defBits()), Layers: lv.codes,
		NumItems: uint32(lv.n), NumVisibleItems: uint32(lv.slots)}
	layout := &pb.PageLayout{Layout: &pb.PageLayout_FullZip{FullZip: l}}
	z := &zipper{lv: lv, v: v}
	z.control = controlBytes(lv.repBits() + lv.defBits())
	if v.typ.Variable() {
		l.Details = &pb.FullZipLayout_BitsPerOffset{BitsPerOffset: uint32(v.typ.OffsetBits())}
		l.ValueCompression = variableCE(v.typ.OffsetBits())
		packed, ce, err := compressValues(v, o)
		if err != nil {
			return Page{}, err
		}
		if packed != nil {
			defer packed.releaseShared()
			z.v = packed
			l.ValueCompression = ce
		} else if packed, table := compressStrings(v, o); packed != nil {
			defer packed.releaseShared()
			z.v = packed
			l.ValueCompression = fsstCE(table, l.ValueCompression)
		}
	} else {
		var width int
		l.ValueCompression, width = zippedFixed(v)
		l.Details = &pb.FullZipLayout_BitsPerValue{BitsPerValue: uint32(width)}
	}
	z.run()
	p := Page{Layout: layout, Buffers: [][]byte{z.data}}
	if v.typ.Variable() || lv.rep != nil {
		w := indexWidth(uint64(len(z.data)))
		index := make([]byte, 0, len(z.starts)*w)
		for _, s := range append(z.starts, uint64(len(z.data))) {
			index = appendUintN(index, s, w)
		}
		p.Buffers = append(p.Buffers, index)
	}
	return p, nil
}

func controlBytes(bits int) int {
	switch {
	case bits == 0:
		return 0
	case bits <= 8:
		return 1
	case bits <= 16:
		return 2
	}
	return 4
}

// zipper writes the entries of a full-zip page.
type zipper struct {
	lv      *levelWriter
	v       *Vector
	control int
	data    []byte
	starts  []uint64 // of each row
}

func (z *zipper) run() {
	lv, slot := z.lv, 0
	for e := range lv.n {
		var rep, def uint16
		if lv.rep != nil {
			rep = lv.rep[e]
		}
		if lv.def != nil {
			def = lv.def[e]
		}
		if int(rep) == lv.plan.MaxRep {
			z.starts = append(z.starts, uint64(len(z.data)))
		}
		z.data = appendUintN(z.data, uint64(rep)<<lv.defBits()|uint64(def), z.control)
		if int(def) > lv.plan.MaxVisible {
			continue
		}
		if !z.v.typ.Variable() {
			z.data = z.v.appendZipped(z.data, slot)
		} else if def == 0 {
			lo, hi := z.v.span(slot)
			z.data = appendUintN(z.data, uint64(hi-lo), z.v.typ.OffsetBits()/8)
			z.data = append(z.data, z.v.data.bytes()[lo:hi]...)
		}
		slot++
	}
}
