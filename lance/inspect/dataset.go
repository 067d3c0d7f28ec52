package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/schema"
	"lancesql/lance/table"
)

// version is a manifest found by its name.
type version struct {
	number uint64
	object string
}

// listVersions lists the manifests of the table at root, ascending.
func listVersions(ctx context.Context, st Store, root string) ([]version, error) {
	var out []version
	err := st.List(ctx, Join(root, table.DirVersions), func(i objstore.Info) error {
		if v, ok := table.ParseManifestName(path.Base(i.Name)); ok && !i.Dir {
			out = append(out, version{v, i.Name})
		}
		return nil
	})
	slices.SortFunc(out, func(a, b version) int { return cmp.Compare(a.number, b.number) })
	return out, err
}

// newest describes the newest readable version of the table at root. What is wrong with newer ones, and with itself,
// goes to the report. Nil if there is none.
func (r *Report) newest(ctx context.Context, st Store, root string) (d *table.ManifestDescription, versions []version) {
	versions, err := listVersions(ctx, st, root)
	if err != nil {
		r.Add(err)
		return nil, nil
	}
	if len(versions) == 0 {
		r.Add(fmt.Errorf("%s: no version: %w", Join(root, table.DirVersions), errs.ErrNotFound))
		return nil, nil
	}
	for i, v := range slices.Backward(versions) {
		if i > 0 && versions[i-1].number == v.number {
			r.Add(errs.Corrupt(v.object, -1, "version %d has a second manifest", v.number))
		}
		b, err := st.ReadAll(ctx, v.object, objectBytesMax)
		if err != nil {
			r.Add(err)
			continue
		}
		d, problems := table.DescribeManifest(v.object, b)
		r.Add(problems...)
		if d == nil {
			continue
		}
		if d.Version != v.number {
			r.Add(errs.Corrupt(v.object, -1, "the manifest of version %d says version %d", v.number, d.Version))
		}
		return d, versions
	}
	return nil, versions
}

// InspectDataset fills the report with the newest version of the table at root, its files and what lies beside them. The
// shards of a MemWAL are left to the caller.
func (r *Report) InspectDataset(ctx context.Context, st Store, root string) {
	d, versions := r.newest(ctx, st, root)
	if d == nil {
		return
	}
	ds := &Dataset{Manifest: *manifestOf(d), Transactions: []Transaction{}, Versions: []uint64{}}
	r.Dataset = ds
	for _, v := range versions {
		ds.Versions = append(ds.Versions, v.number)
	}
	for i := range ds.Fragments {
		r.fragment(ctx, st, root, d.Schema, d.Fragments[i], &ds.Fragments[i])
	}
	r.transactions(ctx, st, root)
	ds.Tags = r.refs(ctx, st, Join(root, table.DirTags))
	ds.Branches = r.refs(ctx, st, Join(root, table.DirBranches))
}

// fragment opens the files of one fragment and compares them with the manifest.
func (r *Report) fragment(ctx context.Context, st Store, root string, s *schema.Schema, f *table.Fragment, out *Fragment) {
	if f.Deletion != nil && f.Deletion.BaseID == nil {
		object := Join(root, f.DeletionPath())
		n, err := readDeletions(ctx, st, object, f.Deletion.Kind)
		r.Add(err)
		if err == nil {
			out.Deletions.Stored = &n.rows
			if n.rows != f.Deletion.Rows || n.rows > 0 && n.last >= f.PhysicalRows {
				r.Add(errs.Corrupt(object, -1, "%d offsets up to %d; the manifest says %d of %d rows", n.rows, n.last, f.Deletion.Rows, f.PhysicalRows))
			}
		}
	}
	for i := range f.Files {
		df := &f.Files[i]
		if df.BaseID != nil {
			continue
		}
		object := Join(root, df.ObjectPath())
		contents := r.file(ctx, st, object, false)
		if contents == nil {
			continue
		}
		out.Files[i].Contents = contents
		nameColumns(contents, s, df)
		if df.Size > 0 && df.Size != contents.Size {
			r.Add(errs.Corrupt(object, -1, "%d bytes, the manifest says %d", contents.Size, df.Size))
		}
		if contents.Rows != f.PhysicalRows && len(contents.Columns) > 0 {
			r.Add(errs.Corrupt(object, -1, "%d rows, the manifest says %d", contents.Rows, f.PhysicalRows))
		}
	}
}

// nameColumns gives the columns the fields the manifest maps to them, which win over the file's own.
func nameColumns(c *File, s *schema.Schema, df *table.DataFile) {
	paths := fieldPaths(s)
	for k, column := range df.Columns {
		if column < 0 || int(column) >= len(c.Columns) {
			continue
		}
		id := df.Fields[k]
		c.Columns[column].FieldID = &id
		if p, ok := paths[id]; ok {
			c.Columns[column].Field = p
		}
	}
}

// fieldPaths maps field ids to dotted paths.
func fieldPaths(s *schema.Schema) map[int32]string {
	out := make(map[int32]string)
	if s == nil {
		return out
	}
	var walk func(prefix string, list []*schema.Field)
	walk = func(prefix string, list []*schema.Field) {
		for _, f := range list {
			out[f.ID] = prefix + f.Name
			walk(prefix+f.Name+".", f.Children)
		}
	}
	walk("", s.Fields)
	return out
}

// transactions lists the transaction files. One that vanishes meanwhile was cleaned up.
func (r *Report) transactions(ctx context.Context, st Store, root string) {
	var names []string
	r.Add(st.List(ctx, Join(root, table.DirTransactions), func(i objstore.Info) error {
		if !i.Dir && strings.HasSuffix(i.Name, ".txn") {
			names = append(names, i.Name)
		}
		return nil
	}))
	for _, name := range names {
		b, err := st.ReadAll(ctx, name, objectBytesMax)
		if errors.Is(err, errs.ErrNotFound) {
			continue
		}
		if err != nil {
			r.Add(err)
			continue
		}
		t, err := table.DescribeTransaction(name, b)
		r.Add(err)
		if t != nil {
			r.Dataset.Transactions = append(r.Dataset.Transactions, *transactionOf(path.Base(name), t))
		}
	}
	slices.SortStableFunc(r.Dataset.Transactions, func(a, b Transaction) int {
		return cmp.Or(cmp.Compare(a.ReadVersion, b.ReadVersion), cmp.Compare(a.File, b.File))
	})
}

// refs reads the tags or branches in dir.
func (r *Report) refs(ctx context.Context, st Store, dir string) []Ref {
	var out []Ref
	r.Add(st.List(ctx, dir, func(i objstore.Info) error {
		name, ok := strings.CutSuffix(path.Base(i.Name), ".json")
		if i.Dir || !ok {
			return nil
		}
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		b, err := st.ReadAll(ctx, i.Name, refBytesMax)
		if errors.Is(err, errs.ErrNotFound) {
			return nil
		}
		if err != nil {
			r.Add(err)
			return nil
		}
		var ref struct {
			Version       uint64 `json:"version"`
			ParentVersion uint64 `json:"parentVersion"`
		}
		if err := json.Unmarshal(b, &ref); err != nil {
			r.Add(errs.Corrupt(i.Name, 0, "%v", err))
			return nil
		}
		out = append(out, Ref{name, max(ref.Version, ref.ParentVersion)})
		return nil
	}))
	return out
}

// Summarize returns the newest version of the table at root in brief, nil if there is none. Only its manifest is
// read; problems go to the report.
func (r *Report) Summarize(ctx context.Context, st Store, root string) *Summary {
	d, _ := r.newest(ctx, st, root)
	if d == nil {
		return nil
	}
	m := manifestOf(d)
	return &Summary{
		Version: m.Version, Rows: m.Rows, PhysicalRows: m.PhysicalRows, Fragments: len(m.Fragments), DataBytes: m.DataBytes, Indexes: len(m.Indexes),
	}
}
