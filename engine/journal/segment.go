package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/logfile"
)

// Layout of a segment's first block, little-endian; the rest of the block is not looked at:
//
//	 0 8 bytes "LSQLJRNL"   8 u32 format (2)   12 u32 crc32c over bytes 16…32
//	16 u64 segment id      24 u64 first J the segment may hold
const (
	segmentMagic       = "LSQLJRNL"
	segmentFormat      = 2 // 1: start records without ends
	segmentHeaderBytes = 32
)

// segment is one use of a file: id numbers the uses over all files, without gaps.
type segment struct {
	file  *logfile.File
	slot  int
	id    uint64
	first J
	last  J    // last record in it, first-1 while there is none
	next  J    // number of the record after the last, set by scan
	old   bool // a process before this one made the file
}

func (s *segment) writeHeader() error {
	b := make([]byte, segmentHeaderBytes)
	copy(b, segmentMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], segmentFormat)
	le.PutUint64(b[16:], s.id)
	le.PutUint64(b[24:], uint64(s.first))
	le.PutUint32(b[12:], crc32.Checksum(b[16:], castagnoli))
	if err := s.file.WriteAt(b, 0); err != nil {
		return err
	}
	return s.file.Sync() // Durable: before the first record, so that no record can precede its segment
}

// readHeader fills id and first; ok is false for a file that is no segment (new, torn, or not ours).
func (s *segment) readHeader() (ok bool, err error) {
	b := make([]byte, segmentHeaderBytes)
	if err := s.file.ReadAt(b, 0); errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	le := binary.LittleEndian
	if string(b[:8]) != segmentMagic || le.Uint32(b[12:]) != crc32.Checksum(b[16:], castagnoli) {
		return false, nil
	}
	if v := le.Uint32(b[8:]); v == 0 || v > segmentFormat {
		return false, fmt.Errorf("%s: journal format %d: %w", s.file.Name(), v, errs.ErrNewerFormat)
	}
	s.id, s.first = le.Uint64(b[16:]), J(le.Uint64(b[24:]))
	if s.id == 0 || s.first == 0 {
		return false, errs.Corrupt(s.file.Name(), 16, "journal segment %d begins at record %d", s.id, s.first)
	}
	return true, nil
}

// claims returns the id of the segment that the first record of a file without a header is of, 0 if there is none. The
// header of a segment is durable before its first record: a record of a segment newer than all others therefore says that a
// header was damaged, and one of an older segment that a recycled file got no further than its new header.
func (s *segment) claims() (uint64, error) {
	b := make([]byte, headerBytes)
	if err := s.file.ReadAt(b, blockBytes); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	id := binary.LittleEndian.Uint64(b[8:])
	probe := segment{file: s.file, id: id}
	_, _, _, ok, err := probe.read(blockBytes, b)
	if err != nil || !ok {
		return 0, nil //nolint:nilerr // not a whole record of ours
	}
	return id, nil
}

// headless is what files without a header claim to be: by name, the segment their first record is of (0: none).
type headless map[string]uint64

// damaged returns an error for a file that must be a segment newer than all of segments, which are in order of id.
func (h headless) damaged(segments []*segment) error {
	newest := uint64(0)
	if len(segments) > 0 {
		newest = segments[len(segments)-1].id
	}
	for name, id := range h {
		if id > newest {
			return errs.Corrupt(name, 0, "the header of journal segment %d is damaged: its commits would be lost", id)
		}
	}
	return nil
}

// openSegments opens every file of the directory: the segments in order of id, and the slots of other files with what
// they claim to be.
func openSegments(dir *logfile.Dir) (segments []*segment, free []int, others headless, err error) {
	slots, err := dir.Slots()
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			closeAll(segments)
		}
	}()
	others = make(headless)
	for _, slot := range slots {
		f, err := dir.Open(slot)
		if err != nil {
			return segments, nil, nil, err
		}
		s := &segment{file: f, slot: slot}
		ok, err := s.readHeader()
		if err != nil {
			return segments, nil, nil, errors.Join(err, f.Close())
		}
		if !ok {
			free = append(free, slot)
			id, err := s.claims()
			others[f.Name()] = id
			if err := errors.Join(err, f.Close()); err != nil {
				return segments, nil, nil, err
			}
			continue
		}
		segments = append(segments, s)
	}
	slices.SortFunc(segments, func(a, b *segment) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return segments, free, others, nil
}

func closeAll(segments []*segment) {
	for _, s := range segments {
		_ = s.file.Close() // only read
	}
}

// scan visits the records of the segment in order, beginning with the number s.first, and sets s.last and s.next. It
// ends at the first block that is no valid record of the segment. If a later block is one of another sync, a
// record in the middle is damaged (I5): records of one sync may be torn in any way, those of two may not.
func (s *segment) scan(visit func(Record) error) error {
	off := int64(blockBytes)
	next := s.first
	s.last = s.first - 1
	block := make([]byte, headerBytes)
	for off+headerBytes <= s.file.Size() {
		r, size, _, ok, err := s.read(off, block)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if r.J != next {
			return errs.Corrupt(s.file.Name(), off, "journal record %d where %d belongs", r.J, next)
		}
		if err := visit(r); err != nil {
			return err
		}
		s.last = next
		next++
		if r.Kind == skip {
			next = r.From
		}
		off += size
	}
	s.next = next
	return s.nothingAfter(off)
}

// read reads the record at off, its size in blocks and the first record of its sync; ok is false if there is none.
func (s *segment) read(off int64, scratch []byte) (r Record, size int64, group J, ok bool, err error) {
	if err := s.file.ReadAt(scratch[:headerBytes], off); err != nil {
		return r, 0, 0, false, err
	}
	h, ok := parseHeader(scratch, s.id)
	total := int64(headerBytes) + int64(h.body)
	if !ok || off+total > s.file.Size() {
		return r, 0, 0, false, nil
	}
	b := make([]byte, total)
	if err := s.file.ReadAt(b, off); err != nil {
		return r, 0, 0, false, err
	}
	if r, ok, err = decode(s.file.Name(), off, b, h); err != nil || !ok {
		return r, 0, 0, false, err
	}
	return r, (total + blockBytes - 1) / blockBytes * blockBytes, h.group, true, nil
}

// nothingAfter fails if a valid record of a later sync than that of record s.next lies at or after off.
func (s *segment) nothingAfter(off int64) error {
	scratch := make([]byte, headerBytes)
	for at := off; at+headerBytes <= s.file.Size(); at += blockBytes {
		r, _, group, ok, err := s.read(at, scratch)
		if err != nil && !errors.Is(err, errs.ErrCorruption) {
			return err
		}
		if ok && group > s.next {
			return errs.Corrupt(s.file.Name(), off, "journal record %d is damaged: record %d after it is whole; the commits from %d on would be lost",
				s.next, r.J, s.next)
		}
	}
	return nil
}
