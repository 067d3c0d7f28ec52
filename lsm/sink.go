package lsm

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"lancesql/lance/table"
)

// rowFeed is told every row that a merge or a rewrite of fragments writes, fragment by fragment.
type rowFeed interface {
	// add takes rows first, first+1, … of new fragment number nth. rec has the physical columns and is borrowed.
	add(nth int, first uint64, rec arrow.RecordBatch) error
	// endFragment says that new fragment number nth is complete.
	endFragment(nth int) error
}

// fragmentSink writes rows into new fragments and tells feeds about them.
type fragmentSink struct {
	ds      *table.Dataset
	rows    int64 // of a full fragment
	feeds   []rowFeed
	written []*table.Fragment // complete, in order
	writer  *table.FragmentWriter
}

// write appends the rows of rec, which has the physical columns and is borrowed. A full fragment is ended.
func (s *fragmentSink) write(ctx context.Context, rec arrow.RecordBatch) error {
	for at := int64(0); at < rec.NumRows(); {
		if s.writer == nil {
			w, err := s.ds.NewFragmentWriter(ctx)
			if err != nil {
				return err
			}
			s.writer = w
		}
		n := min(rec.NumRows()-at, s.rows-int64(s.writer.Rows()))
		part := rec.NewSlice(at, at+n)
		err := s.append(part)
		part.Release()
		if err != nil {
			return err
		}
		at += n
		if int64(s.writer.Rows()) >= s.rows {
			if err := s.endFragment(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *fragmentSink) append(rec arrow.RecordBatch) error {
	first := s.writer.Rows()
	if err := s.writer.Write(rec); err != nil {
		return err
	}
	for _, f := range s.feeds {
		if err := f.add(len(s.written), first, rec); err != nil {
			return err
		}
	}
	return nil
}

// endFragment completes the fragment being written, if there is one.
func (s *fragmentSink) endFragment(ctx context.Context) error {
	if s.writer == nil {
		return nil
	}
	frag, err := s.writer.Finish(ctx)
	s.writer = nil
	if err != nil {
		return err
	}
	for _, f := range s.feeds {
		if err := f.endFragment(len(s.written)); err != nil {
			return err
		}
	}
	s.written = append(s.written, frag)
	return nil
}

// abort drops the fragment being written. It is a no-op when there is none.
func (s *fragmentSink) abort() {
	if s.writer != nil {
		s.writer.Abort()
		s.writer = nil
	}
}
