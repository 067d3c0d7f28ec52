package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"lancesql/internal/arrowx"
	"lancesql/lance/file"
	"lancesql/lance/schema"
)

// diskFile is a data file on disk.
type diskFile struct {
	f    *os.File
	size int64
}

func openDisk(path string) (*diskFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &diskFile{f, info.Size()}, nil
}

// ReadAt implements file.Source.
func (d *diskFile) ReadAt(_ context.Context, p []byte, off int64) error {
	_, err := d.f.ReadAt(p, off)
	return err
}

// Size implements file.Source.
func (d *diskFile) Size() int64 { return d.size }

// Name implements file.Source.
func (d *diskFile) Name() string { return d.f.Name() }

// timed measures one piece of work.
func timed(work func() (answer, error)) (answer, error) {
	cpu, start := cpuSeconds(), time.Now()
	a, err := work()
	a.Seconds = time.Since(start).Seconds()
	a.CPU = cpuSeconds() - cpu
	return a, err
}

// scan opens a file and reads all of it. Batches are released at once, so their memory can be used again.
func scan(ctx context.Context, path string, batch int, mem *arrowx.Recycler) (answer, error) {
	var a answer
	src, err := openDisk(path)
	if err != nil {
		return a, err
	}
	defer src.f.Close()
	r, err := file.Open(ctx, src, file.ReaderOptions{Allocator: mem})
	if err != nil {
		return a, err
	}
	rows, err := r.Scan(ctx, r.Schema().Fields, nil, 0, r.Rows(), batch)
	if err != nil {
		return a, err
	}
	for {
		rec, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return a, rows.Close()
		}
		if err != nil {
			return a, errors.Join(err, rows.Close())
		}
		a.Rows += int(rec.NumRows())
		rec.Release()
	}
}

// take reads single rows of an open file.
func take(ctx context.Context, r *file.Reader, rows []uint64) (answer, error) {
	rec, err := r.Take(ctx, r.Schema().Fields, nil, rows)
	if err != nil {
		return answer{}, err
	}
	defer rec.Release()
	return answer{Rows: int(rec.NumRows())}, nil
}

// readTruth loads an Arrow IPC file.
func readTruth(path string) ([]arrow.RecordBatch, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := ipc.NewFileReader(f)
	if err != nil {
		return nil, err
	}
	var out []arrow.RecordBatch
	for i := range r.NumRecords() {
		rec, err := r.RecordBatchAt(i)
		if err != nil {
			return nil, err
		}
		out = append(out, rec)
	}
	return out, nil
}

// write makes a data file in batches of batch rows; like the reference it does not wait for the disk.
func write(path string, recs []arrow.RecordBatch, batch int) (answer, error) {
	var a answer
	s, err := schema.FromArrow(recs[0].Schema())
	if err != nil {
		return a, err
	}
	out, err := os.Create(path)
	if err != nil {
		return a, err
	}
	w, err := file.NewWriter(out, s, file.WriterOptions{})
	if err != nil {
		return a, errors.Join(err, out.Close())
	}
	for _, rec := range recs {
		for at := int64(0); at < rec.NumRows(); at += int64(batch) {
			part := rec.NewSlice(at, min(at+int64(batch), rec.NumRows()))
			err := w.Write(part)
			part.Release()
			if err != nil {
				w.Abort()
				return a, errors.Join(fmt.Errorf("write: %w", err), out.Close())
			}
		}
	}
	sum, err := w.Finish()
	a.Rows, a.Size = int(sum.Rows), int64(sum.Size)
	return a, errors.Join(err, out.Close())
}
