package encoding

import (
	"lancesql/lance/pb"
)

// maxLayers bounds the nesting levels of a page description.
const maxLayers = 64

// LevelPlan is the meaning of the repetition and definition levels of a page.
// Spec: file format, "Repetition and definition levels".
type LevelPlan struct {
	Layers     []Layer // innermost first
	MaxRep     int     // number of list layers
	MaxDef     int     // greatest definition level, 0 = no definition levels
	MaxVisible int     // entries with a definition level up to this own a value slot
}

// Layer is one nesting level; NullLevel and EmptyLevel are definition levels, 0 if the page has none of the kind.
type Layer struct {
	List       bool
	NullLevel  int
	EmptyLevel int
}

// CompileLevels numbers the layers of a page. errs.ErrUnsupported for unknown codes, errs.ErrCorruption for none.
func CompileLevels(codes []pb.RepDefLayer) (LevelPlan, error) {
	var p LevelPlan
	if len(codes) == 0 || len(codes) > maxLayers {
		return p, corrupt("page with %d nesting levels", len(codes))
	}
	for _, code := range codes {
		var l Layer
		switch code {
		case pb.RepDefLayer_REPDEF_ALL_VALID_ITEM:
		case pb.RepDefLayer_REPDEF_ALL_VALID_LIST:
			l.List = true
		case pb.RepDefLayer_REPDEF_NULLABLE_ITEM:
			l.NullLevel = p.next()
		case pb.RepDefLayer_REPDEF_NULLABLE_LIST:
			l.List, l.NullLevel = true, p.next()
		case pb.RepDefLayer_REPDEF_EMPTYABLE_LIST:
			l.List, l.EmptyLevel = true, p.next()
		case pb.RepDefLayer_REPDEF_NULL_AND_EMPTY_LIST:
			l.List, l.NullLevel, l.EmptyLevel = true, p.next(), p.next()
		default:
			return p, unsupported("nesting level code %d", code)
		}
		if l.List {
			p.MaxRep++
		}
		if p.MaxRep == 0 {
			p.MaxVisible = p.MaxDef
		}
		p.Layers = append(p.Layers, l)
	}
	return p, nil
}

func (p *LevelPlan) next() int {
	p.MaxDef++
	return p.MaxDef
}

// Flat reports whether every row is exactly one value slot and only the value itself may be null.
func (p *LevelPlan) Flat() bool { return len(p.Layers) == 1 && !p.Layers[0].List }
