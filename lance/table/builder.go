package table

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lancesql/internal/errs"
	"lancesql/lance/file"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

// builder derives the next version from a parent and an operation. Messages of the parent are shared, so its members
// are replaced as wholes and never written through.
type builder struct {
	from      *Dataset // the parent's handle, nil for the first version
	parent    *state   // its content
	env       *env
	now       time.Time
	dataFiles file.Version // what new data files must be

	m         *pb.Manifest
	txn       *pb.Transaction
	schema    *schema.Schema
	fragments []*Fragment
	indices   []*pb.IndexMetadata
	memwal    *MemWAL
	added     []*Fragment // new fragments with their ids, in the operation's order
	orphans   []string    // objects written for this attempt: nobody names them if it loses
}

// newBuilder starts from a copy of the version of from. first is the manifest to start from when there is no parent.
func newBuilder(e *env, from *Dataset, first *pb.Manifest) (*builder, error) {
	b := &builder{from: from, env: e, now: e.clock.Now()}
	var readVersion uint64
	var parent *state
	if from != nil {
		parent = from.state
		b.parent = parent
		b.m = shallowCopy(parent.m)
		b.schema, b.memwal = parent.schema, parent.memwal
		b.fragments, b.indices = slices.Clone(parent.fragments), slices.Clone(parent.indices)
		readVersion = parent.m.Version
		if err := checkWritable(parent.object, parent.m); err != nil {
			return nil, err
		}
	} else {
		b.m = first
	}
	if readVersion >= versionMax {
		return nil, fmt.Errorf("version %d is the last: %w", readVersion, errs.ErrLimit)
	}
	b.dataFiles = file.V22()
	if parent != nil {
		v, err := parent.fileVersion()
		if err != nil {
			return nil, err
		}
		if v != (file.Version{}) {
			b.dataFiles = v
		}
	} else if v, err := parseDataVersion(first.GetDataFormat().GetVersion()); err == nil {
		b.dataFiles = v
	} else {
		return nil, err
	}
	b.txn = &pb.Transaction{ReadVersion: readVersion, Uuid: e.newUUID().String()}
	b.stamp(readVersion + 1)
	return b, nil
}

// stamp marks the manifest as ours.
func (b *builder) stamp(version uint64) {
	b.m.Version = version
	b.m.Timestamp = timestamppb.New(b.now)
	b.m.WriterVersion = &pb.WriterVersion{Library: writerLibrary, Version: writerVersion}
	b.m.Tag = ""
}

// finish completes the manifest and returns the file's bytes and the transaction's bytes. transactionFile is the
// base name of the transaction file, "" if the table does without.
func (b *builder) finish(transactionFile string) (manifest, txn []byte, err error) {
	slices.SortFunc(b.fragments, func(x, y *Fragment) int { return cmp.Compare(x.ID, y.ID) })
	b.m.Fragments = make([]*pb.DataFragment, len(b.fragments))
	for i, f := range b.fragments {
		if b.parent != nil && b.parent.fragment(f.ID) == f {
			b.m.Fragments[i] = f.raw
			continue
		}
		b.m.Fragments[i] = f.proto()
	}
	setFlags(b.m, b.indices)
	b.m.TransactionFile = transactionFile
	if txn, err = marshal(b.txn); err != nil {
		return nil, nil, fmt.Errorf("encode transaction: %w", err)
	}
	inline := txn
	if len(txn) > inlineTransactionMax && transactionFile != "" {
		inline = nil
	}
	manifest, err = encodeManifest(b.m, b.indices, inline)
	return manifest, txn, err
}

// add gives new fragments their ids and appends them. Invariant: I3.
func (b *builder) add(list []*Fragment) error {
	next := b.nextFragmentID()
	for _, f := range list {
		if err := b.checkNew(f); err != nil {
			return fmt.Errorf("new fragment: %w", err)
		}
		if next > fragmentIDMax {
			return fmt.Errorf("fragment id %d: %w", next, errs.ErrLimit)
		}
		g := *f
		g.ID = next
		g.raw = nil
		if b.m.ReaderFeatureFlags&flagStableRowIDs != 0 {
			if err := b.assignRowIDs(&g); err != nil {
				return err
			}
		}
		b.fragments = append(b.fragments, &g)
		b.added = append(b.added, &g)
		b.m.MaxFragmentId = proto.Uint32(uint32(next))
		next++
	}
	return nil
}

func (b *builder) nextFragmentID() uint64 { return nextFragmentID(b.m, b.fragments) }

func nextFragmentID(m *pb.Manifest, fragments []*Fragment) uint64 {
	next := uint64(0)
	if m.MaxFragmentId != nil {
		next = uint64(*m.MaxFragmentId) + 1
	}
	for _, f := range fragments {
		next = max(next, f.ID+1)
	}
	return next
}

// NextFragmentID is the id that a commit on this version gives to its first new fragment; the others follow.
func (d *Dataset) NextFragmentID() uint64 { return nextFragmentID(d.state.m, d.state.fragments) }

// checkNew establishes what a fragment must satisfy before a version may name it.
func (b *builder) checkNew(f *Fragment) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, errs.ErrInvalid)...)
	}
	switch {
	case f == nil || len(f.Files) == 0 || f.PhysicalRows == 0:
		return bad("no files or no rows")
	case f.ID != 0:
		return bad("it has id %d already", f.ID)
	case f.Deletion != nil:
		return bad("it has a deletion file")
	case f.PhysicalRows > fragmentRowsMax:
		return fmt.Errorf("%d rows: %w", f.PhysicalRows, errs.ErrLimit)
	}
	for i := range f.Files {
		if err := b.checkFile(&f.Files[i]); err != nil {
			return err
		}
	}
	return b.hasRequired(f)
}

// replaceAndRemove puts new states of fragments in place and takes others out. An updated fragment without live rows
// is removed. It returns what was really updated and removed, for the transaction.
func (b *builder) replaceAndRemove(updated []*Fragment, removed []uint64) ([]*Fragment, []uint64, error) {
	bad := func(format string, args ...any) ([]*Fragment, []uint64, error) {
		return nil, nil, fmt.Errorf(format+": %w", append(args, errs.ErrInvalid)...)
	}
	next := make(map[uint64]*Fragment, len(updated)+len(removed)) // nil: remove
	gone := slices.Clone(removed)
	for _, id := range removed {
		if _, dup := next[id]; dup {
			return bad("fragment %d named twice", id)
		}
		next[id] = nil
	}
	kept := make([]*Fragment, 0, len(updated))
	for _, f := range updated {
		if _, dup := next[f.ID]; dup {
			return bad("fragment %d named twice", f.ID)
		}
		if f.DeletedRows != f.Deletion.rows() || f.DeletedRows > f.PhysicalRows {
			return bad("fragment %d: %d rows deleted, its file says %d", f.ID, f.DeletedRows, f.Deletion.rows())
		}
		next[f.ID] = f
		if f.LiveRows() == 0 {
			next[f.ID] = nil
			gone = append(gone, f.ID)
			continue
		}
		kept = append(kept, f)
	}
	out := b.fragments[:0:0]
	for _, old := range b.fragments {
		f, touched := next[old.ID]
		if !touched {
			out = append(out, old)
			continue
		}
		delete(next, old.ID)
		if f == nil {
			continue
		}
		if !sameFiles(old, f) || f.DeletedRows < old.DeletedRows { // I4
			return bad("fragment %d changes more than its deletions", f.ID)
		}
		out = append(out, f)
	}
	for id := range next {
		return bad("fragment %d is not in version %d", id, b.m.Version-1)
	}
	b.fragments = out
	return kept, gone, nil
}

// advanceMemWAL moves the MemWAL entry in place. Spec: MemWAL, "Compaction progress"; invariant I6.
func (b *builder) advanceMemWAL(list []MergedGeneration) error {
	if len(list) == 0 {
		return nil
	}
	if b.memwal == nil {
		return fmt.Errorf("merged generations without a MemWAL entry: %w", errs.ErrInvalid)
	}
	next, err := b.memwal.advance(list)
	if err != nil {
		return err
	}
	return b.setMemWAL(next)
}

// setMemWAL replaces the content of the entry, keeping its position and drawing a new identifier.
func (b *builder) setMemWAL(m *MemWAL) error {
	details, err := m.any()
	if err != nil {
		return err
	}
	for i, e := range b.indices {
		if !isMemWAL(e) {
			continue
		}
		e = shallowCopy(e)
		e.Uuid = uuidProto(b.env.newUUID())
		e.DatasetVersion = b.m.Version
		e.IndexDetails = details
		e.CreatedAt = proto.Uint64(uint64(b.now.UnixMilli()))
		b.indices[i] = e
		b.memwal = m
		return nil
	}
	return fmt.Errorf("no MemWAL entry: %w", errs.ErrInvalid)
}

// rows is the cardinality of the file's set; 0 for a nil file.
func (d *DeletionFile) rows() uint64 {
	if d == nil {
		return 0
	}
	return d.Rows
}
