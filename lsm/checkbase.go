package lsm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/file"
	"lancesql/lance/table"
)

// manifestBytesMax bounds a base manifest read by a check.
const manifestBytesMax = 1 << 30

// versions checks that every version on disk can be read and that the files it names are there.
func (c *tableCheck) versions() error {
	names := make(map[uint64]string)
	err := c.st.List(c.ctx, c.root+"/"+table.DirVersions, func(i objstore.Info) error {
		v, ok := table.ParseManifestName(path.Base(i.Name))
		if !ok || i.Dir {
			return nil
		}
		if have, twice := names[v]; twice {
			c.add(Error, i.Name, "version %d has a second manifest, %s", v, have)
			return nil
		}
		names[v] = i.Name
		c.all = append(c.all, v)
		return nil
	})
	if err := c.problem(c.root+"/"+table.DirVersions, err); err != nil {
		return err
	}
	slices.Sort(c.all)
	if len(c.all) == 0 {
		c.add(Error, c.root, "there is no table: no version in %s", table.DirVersions)
		return nil
	}
	c.complete = true
	for i, v := range c.all {
		c.o.Progress(c.root + ": manifests")
		newest := i == len(c.all)-1
		if err := c.version(v, names[v], newest); err != nil {
			return err
		}
	}
	return nil
}

// version checks one manifest and what it names. Older versions are for outside readers and time travel: what they
// name counts all the same, since clean-up removes a manifest before its files.
func (c *tableCheck) version(v uint64, object string, newest bool) error {
	ds, err := table.OpenVersion(c.ctx, c.st, c.root, v)
	if err != nil {
		c.complete = false
		if newest {
			if err := c.describe(object); err != nil {
				return err
			}
		}
		return c.problem(object, err)
	}
	if newest {
		c.ds = ds
		if err := c.describe(object); err != nil {
			return err
		}
	}
	n := ds.FileNames()
	if n.Transaction != "" && !c.named[n.Transaction] {
		c.named[n.Transaction] = true
		if err := c.stat(Warning, n.Transaction, 0); err != nil {
			return err
		}
	}
	for _, list := range [][]string{n.Data, n.Deletions} {
		for _, name := range list {
			if c.named[name] {
				continue
			}
			c.named[name] = true
			if newest {
				continue // looked at with its size below
			}
			if err := c.stat(Error, name, 0); err != nil {
				return err
			}
		}
	}
	for _, folder := range n.IndexFolders {
		if c.named[folder] {
			continue
		}
		c.named[folder] = true
		empty := true
		err := c.st.List(c.ctx, folder, func(objstore.Info) error { empty = false; return nil })
		if err := c.problem(folder, err); err != nil {
			return err
		}
		if id, ok := ds.FragmentReuseUUID(); ok && strings.HasSuffix(folder, "/"+id.String()) {
			continue // a short history is in the manifest itself
		}
		if empty {
			c.some(Error, "missing index folders", folder, "the folder of an index segment is missing or empty")
		}
	}
	return nil
}

// describe takes the newest manifest apart, which finds what an opening does not look at.
func (c *tableCheck) describe(object string) error {
	b, err := c.st.ReadAll(c.ctx, object, manifestBytesMax)
	if err != nil {
		return c.problem(object, err)
	}
	_, problems := table.DescribeManifest(object, b)
	for _, p := range problems {
		if err := c.problem(object, p); err != nil {
			return err
		}
	}
	return nil
}

// newest checks the files of the newest version: sizes, footers and column metadata, deletion vectors, index files,
// and with Deep every value.
func (c *tableCheck) newest() error {
	if c.ds == nil {
		return nil
	}
	c.state.Version, c.state.Rows, c.state.Fragments = c.ds.Version(), c.ds.CountRows(), len(c.ds.Fragments())
	if err := c.fragments(c.ds); err != nil {
		return err
	}
	indexes, err := c.ds.Indexes()
	if err != nil {
		return c.problem(c.root, err)
	}
	for _, x := range indexes {
		if x.MemWAL != nil || x.BaseID != nil {
			continue
		}
		for _, f := range x.Files {
			if err := c.stat(Error, c.root+"/"+table.DirIndices+"/"+x.UUID.String()+"/"+f.Path, f.Size); err != nil {
				return err
			}
		}
	}
	return nil
}

// fragments checks the fragments of a dataset: of the base or of a generation.
func (c *tableCheck) fragments(ds *table.Dataset) error {
	for i, f := range ds.Fragments() {
		if i%16 == 0 {
			c.o.Progress(ds.Root() + ": fragments")
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		readable := true
		for k := range f.Files {
			df := &f.Files[k]
			if df.BaseID != nil {
				c.some(Info, "files outside the table", df.Path, "lies outside the table and is not checked")
				continue
			}
			ok, err := c.dataFile(ds.Root()+"/"+df.ObjectPath(), df.Size, f.PhysicalRows)
			if err != nil {
				return err
			}
			readable = readable && ok
		}
		if f.Deletion != nil {
			dv, err := ds.Deletions(c.ctx, f)
			object := ds.Root() + "/" + f.DeletionPath()
			switch {
			case err != nil:
				if err := c.problem(object, err); err != nil {
					return err
				}
			case dv == nil:
				c.add(Error, object, "names no rows, the manifest says %d", f.Deletion.Rows)
			case dv.GetCardinality() != f.Deletion.Rows:
				c.add(Error, object, "names %d rows, the manifest says %d", dv.GetCardinality(), f.Deletion.Rows)
			case !dv.IsEmpty() && uint64(dv.Maximum()) >= f.PhysicalRows:
				c.add(Error, object, "names row %d of a fragment of %d rows", dv.Maximum(), f.PhysicalRows)
			}
		}
		if c.o.Deep && readable {
			if err := c.decode(ds, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// dataFile checks one data file without its values; ok is false if its values need not be tried.
func (c *tableCheck) dataFile(object string, size, rows uint64) (ok bool, err error) {
	i, err := c.st.Stat(c.ctx, object)
	if errors.Is(err, errs.ErrNotFound) {
		c.some(Error, "missing data files", object, "is missing")
		return false, nil
	}
	if err != nil {
		return false, c.problem(object, err)
	}
	if size > 0 && uint64(i.Size) != size {
		c.add(Error, object, "%d bytes, %d are recorded", i.Size, size)
		return false, nil
	}
	d, err := c.described(object, i.Size)
	if err != nil || d == nil {
		return false, err
	}
	if len(d.Columns) > 0 && d.Rows != rows {
		c.add(Error, object, "%d rows, the manifest says %d", d.Rows, rows)
		return false, nil
	}
	return true, nil
}

// described takes a data file apart; nil if anything about it is wrong, which was reported.
func (c *tableCheck) described(object string, size int64) (*file.Description, error) {
	d, problems := file.Describe(c.ctx, fileSource{st: c.st, name: object, size: size})
	for _, p := range problems {
		if err := c.problem(object, p); err != nil {
			return nil, err
		}
	}
	if len(problems) > 0 {
		return nil, nil
	}
	return d, nil
}

// decode reads every value of a fragment.
func (c *tableCheck) decode(ds *table.Dataset, f *table.Fragment) error {
	where := ds.Root()
	if len(f.Files) > 0 {
		where += "/" + f.Files[0].ObjectPath()
	}
	r, err := ds.ScanFragment(c.ctx, f, ds.FieldIDs(), 0, f.PhysicalRows, 4096)
	if err != nil {
		return c.problem(where, err)
	}
	defer r.Close()
	rows := uint64(0)
	for {
		_, rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c.problem(where, err)
		}
		rows += uint64(rec.NumRows())
		rec.Release()
		if rows%(1<<20) < 4096 {
			c.o.Progress(ds.Root() + ": values")
		}
	}
	if rows != f.PhysicalRows {
		c.add(Error, where, "%d rows can be read of fragment %d, which has %d", rows, f.ID, f.PhysicalRows)
	}
	return nil
}

// fileSource is one object as lance/file reads it.
type fileSource struct {
	st   objstore.Store
	name string
	size int64
}

func (s fileSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	return s.st.ReadAt(ctx, s.name, p, off)
}

func (s fileSource) Size() int64  { return s.size }
func (s fileSource) Name() string { return s.name }

// walkOrder sorts positions or versions.
func walkOrder[T any](list []T, of func(T) uint64) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(of(a), of(b)) })
}
