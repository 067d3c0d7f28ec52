package inspect

import (
	"context"
	"fmt"
	"path"
	"strings"

	"lancesql/internal/errs"
	"lancesql/lance/file"
	"lancesql/lance/table"
)

// arrowFileMagic begins an Arrow IPC file; a WAL entry, an IPC stream, begins otherwise.
const arrowFileMagic = "ARROW1"

// KindOfFile guesses from its name, and for *.arrow from its first bytes, what a single object is. "" if it is
// nothing this package knows.
func KindOfFile(ctx context.Context, st Store, name string) (string, error) {
	switch path.Ext(name) {
	case ".lance", ".idx":
		return KindDataFile, nil
	case ".manifest":
		return KindManifest, nil
	case ".txn":
		return KindTransaction, nil
	case ".bin":
		return KindDeletions, nil
	case ".binpb":
		return KindShardManifest, nil
	case ".arrow":
		info, err := st.Stat(ctx, name)
		if err != nil {
			return "", err
		}
		head := make([]byte, min(info.Size, int64(len(arrowFileMagic))))
		if err := st.ReadAt(ctx, name, head, 0); err != nil {
			return "", err
		}
		if string(head) == arrowFileMagic {
			return KindDeletions, nil
		}
		return KindWALEntry, nil
	}
	return "", nil
}

// IsDataset reports whether dir has the shape of a table: a directory of versions.
func IsDataset(ctx context.Context, st Store, dir string) (bool, error) {
	versions, err := listVersions(ctx, st, dir)
	return len(versions) > 0, err
}

// InspectDataFile fills the report with one data or index file.
func (r *Report) InspectDataFile(ctx context.Context, st Store, name string) {
	r.DataFile = r.file(ctx, st, name, true)
}

// file describes a data file, with its own schema if asked for; nil if it cannot be read at all.
func (r *Report) file(ctx context.Context, st Store, name string, withSchema bool) *File {
	info, err := st.Stat(ctx, name)
	if err != nil {
		r.Add(fmt.Errorf("data file %s: %w", name, err))
		return nil
	}
	d, problems := file.Describe(ctx, source{st, name, info.Size})
	r.Add(problems...)
	if d == nil {
		return nil
	}
	out := fileOf(d)
	if withSchema && d.Schema != nil {
		out.Schema, out.SchemaMetadata = fields(d.Schema.Fields), d.Schema.Metadata
	}
	return out
}

// InspectManifest fills the report with one manifest file.
func (r *Report) InspectManifest(ctx context.Context, st Store, name string) {
	b, err := st.ReadAll(ctx, name, objectBytesMax)
	if err != nil {
		r.Add(err)
		return
	}
	d, problems := table.DescribeManifest(name, b)
	r.Add(problems...)
	if d != nil {
		r.Manifest = manifestOf(d)
	}
}

// InspectTransaction fills the report with one transaction file.
func (r *Report) InspectTransaction(ctx context.Context, st Store, name string) {
	b, err := st.ReadAll(ctx, name, objectBytesMax)
	if err != nil {
		r.Add(err)
		return
	}
	t, err := table.DescribeTransaction(name, b)
	r.Add(err)
	if t != nil {
		r.Transaction = transactionOf(path.Base(name), t)
	}
}

// deletionCount is what a deletion file amounts to.
type deletionCount struct{ rows, last uint64 }

func readDeletions(ctx context.Context, st Store, object string, kind table.DeletionKind) (deletionCount, error) {
	b, err := st.ReadAll(ctx, object, objectBytesMax)
	if err != nil {
		return deletionCount{}, fmt.Errorf("deletion file %s: %w", object, err)
	}
	if len(b) == 0 {
		return deletionCount{}, errs.Corrupt(object, 0, "empty deletion file")
	}
	bitmap, err := table.DecodeDeletions(object, kind, b)
	if err != nil || bitmap.IsEmpty() {
		return deletionCount{}, err
	}
	return deletionCount{bitmap.GetCardinality(), uint64(bitmap.Maximum())}, nil
}

// InspectDeletions fills the report with one deletion file.
func (r *Report) InspectDeletions(ctx context.Context, st Store, name string) {
	kind := table.DeletionArrow
	if strings.HasSuffix(name, ".bin") {
		kind = table.DeletionBitmap
	}
	n, err := readDeletions(ctx, st, name, kind)
	r.Add(err)
	if err == nil {
		r.Deletions = &Deletions{Path: name, Encoding: deletionText(kind), Rows: n.rows, Stored: &n.rows}
	}
}
