package table

import (
	"context"
	"fmt"
	"slices"

	"lancesql/internal/errs"
	"lancesql/lance/file"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

// tombstone marks a column of a data file whose field has its values in another file.
const tombstone = -2

func (o Project) apply(_ context.Context, b *builder) error {
	fields, err := b.reshape(o.Schema, false)
	if err != nil {
		return fmt.Errorf("projection: %w", err)
	}
	preserves := preservesNullability(b.parent.schema, b.schema)
	for i, f := range b.fragments {
		if kept := liveFiles(b.schema, f.Files); len(kept) < len(f.Files) {
			g := *f
			g.Files = kept
			b.fragments[i] = &g
		}
	}
	b.txn.Operation = &pb.Transaction_Project{Project: &pb.ProjectOperation{Schema: fields, PreservesNullability: preserves}}
	return b.checkRequired()
}

func (o Merge) apply(_ context.Context, b *builder) error {
	fields, err := b.reshape(o.Schema, true)
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	preserves := preservesNullability(b.parent.schema, b.schema)
	next, fresh, err := b.mergedFragments(o.Fragments)
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	b.fragments = next
	if err := b.checkRequired(); err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	if err := b.add(fresh); err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	b.txn.Operation = &pb.Transaction_Merge{Merge: &pb.MergeOperation{
		Fragments: fragmentProtos(b.fragments), Schema: fields, SchemaMetadata: b.m.SchemaMetadata, PreservesNullability: preserves,
	}}
	return nil
}

// mergedFragments separates the new states of the parent's fragments from new ones and checks the former.
func (b *builder) mergedFragments(list []*Fragment) (states, fresh []*Fragment, err error) {
	bad := func(format string, args ...any) ([]*Fragment, []*Fragment, error) {
		return nil, nil, fmt.Errorf(format+": %w", append(args, errs.ErrInvalid)...)
	}
	seen := make(map[uint64]bool, len(list))
	for _, f := range list {
		if f == nil {
			return bad("a fragment is absent")
		}
		was := b.parent.fragment(f.ID)
		if was == nil || seen[f.ID] {
			fresh = append(fresh, f)
			continue
		}
		seen[f.ID] = true
		if len(fresh) > 0 {
			return bad("fragment %d comes after a new one", f.ID)
		}
		if f.PhysicalRows != was.PhysicalRows || !sameDeletions(f, was) || len(f.Files) == 0 {
			return bad("fragment %d changes more than its columns", f.ID)
		}
		for i := range f.Files {
			if err := b.checkFile(&f.Files[i]); err != nil {
				return nil, nil, fmt.Errorf("fragment %d: %w", f.ID, err)
			}
		}
		if !sameFiles(f, was) {
			if f, err = b.touched(f); err != nil {
				return nil, nil, err
			}
		} else {
			f = was
		}
		states = append(states, f)
	}
	if len(states) != len(b.fragments) {
		return bad("%d of %d fragments", len(states), len(b.fragments))
	}
	return states, fresh, nil
}

// touched returns f with the new version as the last change of its rows, in a table that records it.
func (b *builder) touched(f *Fragment) (*Fragment, error) {
	if b.m.ReaderFeatureFlags&flagStableRowIDs == 0 {
		return f, nil
	}
	runs, err := versionRuns(f.PhysicalRows, b.m.Version)
	if err != nil {
		return nil, err
	}
	g := *f
	g.raw = shallowCopy(b.parent.fragment(f.ID).raw)
	g.raw.LastUpdatedAtVersionSequence = &pb.DataFragment_InlineLastUpdatedAtVersions{InlineLastUpdatedAtVersions: runs}
	return &g, nil
}

func (o DataReplacement) apply(ctx context.Context, b *builder) error {
	op := &pb.DataReplacementOperation{}
	if len(o.Replacements) == 0 {
		return fmt.Errorf("replacement of nothing: %w", errs.ErrInvalid)
	}
	h, err := b.reuse(ctx)
	if err != nil {
		return err
	}
	for i := range o.Replacements {
		r := &o.Replacements[i]
		if err := b.replace(r, h); err != nil {
			return fmt.Errorf("replacement in fragment %d: %w", r.FragmentID, err)
		}
		op.Replacements = append(op.Replacements, &pb.DataReplacementOperation_Group{FragmentId: r.FragmentID, NewFile: r.File.proto()})
	}
	b.txn.Operation = &pb.Transaction_DataReplacement{DataReplacement: op}
	return nil
}

// replace puts one file in the place of the columns it holds.
func (b *builder) replace(r *Replacement, h *FragmentReuse) error {
	if err := b.checkFile(&r.File); err != nil {
		return err
	}
	for _, id := range r.File.Fields {
		if b.schema.FieldByID(id) == nil {
			return fmt.Errorf("field %d is not in the schema: %w", id, errs.ErrInvalid)
		}
	}
	at := slices.IndexFunc(b.fragments, func(f *Fragment) bool { return f.ID == r.FragmentID })
	if at < 0 {
		return fmt.Errorf("no such fragment: %w", errs.ErrInvalid)
	}
	g := *b.fragments[at]
	g.Files = slices.Clone(g.Files)
	same := slices.IndexFunc(g.Files, func(df DataFile) bool { return slices.Equal(df.Fields, r.File.Fields) })
	if same >= 0 {
		g.Files[same] = r.File
	} else {
		g.Files = append(buried(g.Files, r.File.Fields), r.File)
	}
	f, err := b.touched(&g)
	if err != nil {
		return err
	}
	b.fragments[at] = f
	return b.uncover(h, map[uint64]bool{r.FragmentID: true}, r.File.Fields, nil)
}

// buried returns the files with the given fields struck out; a file that has no other is left out.
func buried(files []DataFile, gone []int32) []DataFile {
	out := make([]DataFile, 0, len(files)+1)
	for _, df := range files {
		fields, left := slices.Clone(df.Fields), false
		for i, id := range fields {
			if slices.Contains(gone, id) {
				fields[i] = tombstone
			}
			left = left || fields[i] >= 0
		}
		if left {
			df.Fields = fields
			out = append(out, df)
		}
	}
	return out
}

// reshape puts a schema in the place of the parent's. Fields keep their ids, types and parents; new ids, where allowed,
// must never have been used. Index entries on fields that are gone go with them. It returns the field messages.
func (b *builder) reshape(s *schema.Schema, fresh bool) ([]*pb.Field, error) {
	if s == nil || len(s.Fields) == 0 {
		return nil, fmt.Errorf("no columns: %w", errs.ErrInvalid)
	}
	fields := s.ToProto()
	checked, err := schema.FromProto(fields, b.m.SchemaMetadata)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	before := make(map[int32]*pb.Field, len(b.m.Fields))
	for _, f := range b.m.Fields {
		before[f.Id] = f
	}
	used := b.parent.maxFieldID()
	for _, f := range fields {
		was := before[f.Id]
		switch {
		case was == nil && !fresh:
			return nil, fmt.Errorf("field %q has the new id %d: %w", f.Name, f.Id, errs.ErrInvalid)
		case was == nil && f.Id <= used:
			return nil, fmt.Errorf("field %q has id %d, ids up to %d were used: %w", f.Name, f.Id, used, errs.ErrInvalid)
		case was != nil && (was.LogicalType != f.LogicalType || was.ParentId != f.ParentId):
			return nil, fmt.Errorf("field %q changes its type or parent under id %d: %w", f.Name, f.Id, errs.ErrInvalid)
		case was != nil:
			keepForeign(f, was)
		}
	}
	key := b.schema.PrimaryKey()
	if len(key) > 0 && !slices.EqualFunc(key, checked.PrimaryKey(), func(x, y *schema.Field) bool { return x.ID == y.ID }) {
		return nil, fmt.Errorf("change of the primary key: %w", errs.ErrInvalid)
	}
	b.schema, b.m.Fields = checked, fields
	b.dropVanished()
	return fields, nil
}

// keepForeign carries what a schema.Field does not hold.
func keepForeign(f, was *pb.Field) {
	f.Type, f.Encoding, f.Dictionary = was.Type, was.Encoding, was.Dictionary
}

// preservesNullability: no field of after demands values that before did not.
func preservesNullability(before, after *schema.Schema) bool {
	ok := true
	after.Walk(func(f *schema.Field) {
		if !f.Nullable {
			was := before.FieldByID(f.ID)
			ok = ok && was != nil && !was.Nullable
		}
	})
	return ok
}

// schemaOf is the schema an operation brings, nil if it leaves the parent's.
func schemaOf(op Operation) *schema.Schema {
	switch o := op.(type) {
	case Merge:
		return o.Schema
	case *Merge:
		return o.Schema
	case Project:
		return o.Schema
	case *Project:
		return o.Schema
	}
	return nil
}

// liveFiles leaves out the files that hold no field of the schema, but never all of them: a fragment's rows are
// counted by its files.
func liveFiles(s *schema.Schema, files []DataFile) []DataFile {
	kept := slices.DeleteFunc(slices.Clone(files), func(df DataFile) bool {
		return !slices.ContainsFunc(df.Fields, func(id int32) bool { return id >= 0 && s.FieldByID(id) != nil })
	})
	if len(kept) == 0 && len(files) > 0 {
		return files[:1]
	}
	return kept
}

// checkRequired establishes that every fragment has the fields that must not be null.
func (b *builder) checkRequired() error {
	for _, f := range b.fragments {
		if err := b.hasRequired(f); err != nil {
			return fmt.Errorf("fragment %d: %w", f.ID, err)
		}
	}
	return nil
}

func (b *builder) hasRequired(f *Fragment) error {
	for _, top := range b.schema.Fields {
		if top.Nullable {
			continue
		}
		for _, leaf := range b.schema.Leaves(top) {
			if _, _, ok := f.column(leaf.ID); !ok && !leaf.Nullable {
				return fmt.Errorf("field %q (%d) is not nullable and has no data: %w", leaf.Name, leaf.ID, errs.ErrInvalid)
			}
		}
	}
	return nil
}

// checkFile establishes what a data file must satisfy before a version may name it.
func (b *builder) checkFile(df *DataFile) error {
	if !plainSegment(df.Path) || len(df.Fields) == 0 || len(df.Fields) != len(df.Columns) {
		return fmt.Errorf("data file %q with %d fields and %d columns: %w", df.Path, len(df.Fields), len(df.Columns), errs.ErrInvalid)
	}
	if v := (file.Version{Major: df.Major, Minor: df.Minor}); v != b.dataFiles && b.m.ReaderFeatureFlags&flagMixedDataFiles == 0 {
		return fmt.Errorf("data file %q has version %s, the table %s: %w", df.Path, v, b.dataFiles, errs.ErrInvalid)
	}
	return nil
}

// maxFieldID is the highest field id that the version shows to have been used: in its schema, its files, its indexes.
func (s *state) maxFieldID() int32 {
	last := s.schema.MaxID()
	for _, f := range s.fragments {
		for i := range f.Files {
			last = max(last, slices.Max(append([]int32{last}, f.Files[i].Fields...)))
		}
	}
	for _, e := range s.indices {
		for _, id := range e.Fields {
			last = max(last, id)
		}
	}
	return last
}

// NextFieldID is the id of the next field added to the table: greater than any that was used.
func (d *Dataset) NextFieldID() int32 { return d.state.maxFieldID() + 1 }
