package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/logfile"
)

// Found is a record met by Examine. Its slices are valid during the call only.
type Found struct {
	Record
	Object string // file
	Offset int64  // bytes
	Lost   bool   // behind damage: Open would never give it out
}

// Damage says where the journal cannot be followed any further although more of it is there.
type Damage struct {
	Err    error // errs.ErrCorruption
	Object string
	Slot   int
	Offset int64 // from here on nothing of the segment counts; 0: nothing of it at all
	Next   J     // first record that is lost
	Later  []int // slots of the segments behind
}

// Examination is what Examine saw.
type Examination struct {
	Segments int
	Bytes    int64 // of all segments
	From     J     // first record still needed, 0 if no start record says
	Ends     []End // of WALs, as the newest start record names them
	Next     J     // number of the record after the last whole one in order
	Damage   *Damage
}

// Examine reads the journal without changing a byte and visits every whole record from the first one still needed, in
// order; those behind damage as well, marked. Beside Open it does not stop at damage. The journal may not be in use.
func Examine(dir *logfile.Dir, visit func(Found) error) (*Examination, error) {
	segments, free, _, err := openSegments(dir)
	if err != nil {
		return nil, err
	}
	defer closeAll(segments)
	x := &examiner{out: &Examination{Segments: len(segments)}, segments: segments}
	for _, s := range segments {
		x.out.Bytes += s.file.Size()
	}
	if err := x.walk(nil); err != nil {
		return nil, err
	}
	if x.out.Damage == nil {
		if err := x.headless(dir, free); err != nil {
			return nil, err
		}
	}
	x.damage = nil
	return x.out, x.walk(visit)
}

// examiner walks over the segments: once to learn From and the damage, once to visit.
type examiner struct {
	out      *Examination
	segments []*segment // ascending id
	damage   *Damage    // met in this walk
	next     J
}

// walk follows the newest run of segments without a gap in their ids, as Open does.
func (x *examiner) walk(visit func(Found) error) error {
	run := len(x.segments) - 1
	for run > 0 && x.segments[run-1].id+1 == x.segments[run].id {
		run--
	}
	x.next = 1
	for i, s := range x.segments[max(run, 0):] {
		if i == 0 {
			x.next = s.first
		} else if s.first != x.next && x.damage == nil {
			x.hurt(s, 0, errs.Corrupt(s.file.Name(), 24, "journal segment %d begins at record %d, the one before it ends at %d", s.id, s.first, x.next-1))
		}
		if err := x.scan(s, visit); err != nil {
			return err
		}
		if x.damage == nil {
			x.out.Next = x.next
		}
	}
	if visit == nil && run > 0 && x.segments[run].first > max(x.out.From, 1) {
		s := x.segments[run]
		x.damage = nil // Why: what is missing before comes first
		x.out.Next = max(x.out.From, 1)
		x.next = x.out.Next
		x.hurt(s, 0, errs.Corrupt(s.file.Name(), 16, "journal segment %d is missing; record %d is still needed", s.id-1, x.out.Next))
	}
	if visit == nil {
		x.out.Damage = x.damage
		x.out.Next = max(x.out.Next, 1)
	}
	return nil
}

func (x *examiner) hurt(s *segment, off int64, err error) {
	d := &Damage{Err: err, Object: s.file.Name(), Slot: s.slot, Offset: off, Next: x.next}
	for _, later := range x.segments {
		if later.id > s.id {
			d.Later = append(d.Later, later.slot)
		}
	}
	x.damage = d
}

// lost reports whether a record is behind the damage of the journal.
func (x *examiner) lost(j J) bool {
	return x.damage != nil || x.out.Damage != nil && j >= x.out.Damage.Next
}

// scan goes over one segment block by block; after the first that is no record it looks on for whole ones.
func (x *examiner) scan(s *segment, visit func(Found) error) error {
	scratch := make([]byte, headerBytes)
	ended := int64(0) // where the records in order end
	next := s.first
	if x.damage == nil {
		next = x.next
	}
	for off := int64(blockBytes); off+headerBytes <= s.file.Size(); {
		r, size, group, ok, err := s.read(off, scratch)
		if err != nil && !errors.Is(err, errs.ErrCorruption) {
			return err
		}
		if !ok {
			if ended == 0 {
				ended = off
			}
			off += blockBytes
			continue
		}
		if x.damage == nil && (ended != 0 && group > next || ended == 0 && r.J != next) {
			at := off
			if ended != 0 {
				at = ended
			}
			x.next = next
			x.hurt(s, at, errs.Corrupt(s.file.Name(), at, "journal record %d is damaged: record %d after it is whole", next, r.J))
		}
		if ended == 0 || x.damage != nil {
			if r.Kind == Start && x.damage == nil {
				x.out.From, x.out.Ends = max(x.out.From, r.From), r.Ends
			}
			if visit != nil && r.J >= x.out.From && r.Kind != skip {
				if err := visit(Found{Record: r, Object: s.file.Name(), Offset: off, Lost: x.lost(r.J)}); err != nil {
					return err
				}
			}
		}
		if ended == 0 {
			next = r.J + 1
			if r.Kind == skip {
				next = r.From
			}
		}
		off += size
	}
	if x.damage == nil {
		x.next = next
	}
	return nil
}

// headless looks for files whose header is damaged while their records are newer than every segment.
func (x *examiner) headless(dir *logfile.Dir, free []int) error {
	newest := uint64(0)
	if n := len(x.segments); n > 0 {
		newest = x.segments[n-1].id
	}
	slices.Sort(free)
	for _, slot := range free {
		f, err := dir.Open(slot)
		if err != nil {
			return err
		}
		s := &segment{file: f, slot: slot}
		b := make([]byte, headerBytes)
		if f.Size() >= 2*blockBytes {
			if err := f.ReadAt(b, blockBytes); err != nil {
				_ = f.Close() // only read
				return err
			}
			s.id = binary.LittleEndian.Uint64(b[8:])
		}
		if s.id > newest {
			r, _, _, ok, err := s.read(blockBytes, b)
			if err != nil && !errors.Is(err, errs.ErrCorruption) {
				_ = f.Close() // only read
				return err
			}
			if ok && x.out.Damage == nil {
				x.out.Damage = &Damage{Object: f.Name(), Slot: slot, Next: x.out.Next,
					Err: errs.Corrupt(f.Name(), 0, "the header of journal segment %d is damaged; its records from %d on are not found", s.id, r.J)}
			}
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("close journal segment: %w", err)
		}
	}
	return nil
}
