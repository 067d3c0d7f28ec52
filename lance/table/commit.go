package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
	"lancesql/lance/pb"
	"lancesql/lance/schema"
)

// CreateOptions says what version 1 of a table holds besides the schema.
type CreateOptions struct {
	Options
	TableMetadata map[string]string
	Config        map[string]string
	MemWAL        *MemWAL      // nil: no MemWAL entry
	DataVersion   string       // version of data files; "" = "2.2"
	Indexes       []IndexEntry // of a generation only: over its one fragment, whose files are written
}

// errTaken says that another commit made the version: reloading and applying again may succeed.
var errTaken = fmt.Errorf("the version exists already: %w", errs.ErrConflict)

// Commit makes op the version after d's, in exactly one attempt. Objects named by op must be durable.
// errs.ErrConflict if the version was made by somebody else (or op's merged generations are recorded already): reload
// and recompute. errs.ErrInvalid if op does not fit the version. Cancellation before the manifest is put leaves the
// table unchanged; a put whose outcome is unclear is resolved by reading back.
func (d *Dataset) Commit(ctx context.Context, op Operation) (*Dataset, error) {
	list, err := listVersions(ctx, d.env.st, d.root)
	if err != nil {
		return nil, fmt.Errorf("commit on version %d: %w", d.Version(), err)
	}
	// Why: the next version may have been made and cleaned up since. Putting it again would succeed and be lost.
	if n := len(list.versions); n == 0 || list.versions[n-1] != d.Version() {
		return nil, fmt.Errorf("commit on version %d: %w", d.Version(), errTaken)
	}
	b, err := newBuilder(d.env, d, nil)
	if err != nil {
		return nil, fmt.Errorf("commit on version %d: %w", d.Version(), err)
	}
	if err := op.apply(ctx, b); err != nil {
		return nil, fmt.Errorf("commit on version %d: %w", d.Version(), err)
	}
	next, err := b.commit(ctx, d.root, d.state.naming)
	if err != nil {
		return nil, fmt.Errorf("commit on version %d: %w", d.Version(), err)
	}
	return next, nil
}

// commit writes the transaction file and puts the manifest.
func (b *builder) commit(ctx context.Context, root string, n naming) (*Dataset, error) {
	st := b.env.st
	txnFile := ""
	if b.m.WriterFeatureFlags&flagNoTxnFile == 0 {
		id, err := uuid.Parse(b.txn.Uuid)
		if err != nil {
			return nil, fmt.Errorf("transaction id: %w", err)
		}
		txnFile = transactionName(b.txn.ReadVersion, id)
	}
	manifest, txn, err := b.finish(txnFile)
	if err != nil {
		return nil, err
	}
	object := join(root, versionsDir, n.manifestName(b.m.Version))
	// What cannot be read back must not become a version: decode before the put.
	next, err := decodeManifest(object, manifest)
	if err != nil {
		return nil, fmt.Errorf("the version to be written is not readable: %w", err)
	}
	next.naming = n
	if txnFile != "" {
		if err := st.PutIfAbsent(ctx, join(root, transactionsDir, txnFile), txn); err != nil {
			return nil, fmt.Errorf("transaction file: %w", err)
		}
	}
	err = putManifest(ctx, st, object, manifest)
	if errors.Is(err, errTaken) { // named by nobody; clean-up would find them later
		if txnFile != "" {
			b.orphans = append(b.orphans, join(root, transactionsDir, txnFile))
		}
		for _, name := range b.orphans {
			_ = st.Delete(ctx, name)
		}
	}
	if err != nil {
		return nil, err
	}
	writeHint(ctx, st, root, b.m.Version)
	d := &Dataset{env: b.env, root: root, state: next}
	for _, f := range b.added {
		d.added = append(d.added, next.fragment(f.ID))
	}
	return d, nil
}

// putManifest creates the manifest. An attempt whose outcome is unclear is resolved by reading back: manifests
// differ between any two commits (the transaction id), so equal bytes are ours.
func putManifest(ctx context.Context, st objstore.Store, object string, manifest []byte) error {
	err := st.PutIfAbsent(ctx, object, manifest) // Durable: the commit point
	if err == nil || errors.Is(err, errs.ErrSync) || errors.Is(err, errs.ErrNoSpace) {
		// Why: after a failed sync the file may be there and not survive; it must not count as committed.
		return err
	}
	back, readErr := st.ReadAll(context.WithoutCancel(ctx), object, manifestBytesMax)
	switch {
	case readErr == nil && bytes.Equal(back, manifest):
		return nil
	case readErr == nil || errors.Is(readErr, errs.ErrLimit):
		return errTaken
	case errors.Is(err, errs.ErrExists):
		return fmt.Errorf("%w (reading it: %w)", errTaken, readErr)
	}
	return fmt.Errorf("manifest: %w", err)
}

// Create makes version 1 of an empty table with schema s at root. errs.ErrExists if the table has a version already.
// Table metadata and configuration are stored as given; with MemWAL the MemWAL entry is part of version 1.
func Create(ctx context.Context, st objstore.Store, root string, s *schema.Schema, o CreateOptions) (*Dataset, error) {
	e := newEnv(st, o.Options)
	b, err := firstBuilder(ctx, e, root, o)
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", root, err)
	}
	if err := (Overwrite{Schema: s, ConfigUpsert: o.Config}).apply(ctx, b); err != nil {
		return nil, fmt.Errorf("create table %s: %w", root, err)
	}
	if o.MemWAL != nil {
		entry, err := b.newEntry(IndexEntry{UUID: e.newUUID(), MemWAL: o.MemWAL})
		if err != nil {
			return nil, fmt.Errorf("create table %s: %w", root, err)
		}
		b.indices = append(b.indices, entry)
	}
	d, err := b.commit(ctx, root, namingV2)
	if errors.Is(err, errTaken) {
		err = errs.ErrExists
	}
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", root, err)
	}
	return d, nil
}

// firstBuilder is the builder of a version 1. errs.ErrExists if root has a version.
func firstBuilder(ctx context.Context, e *env, root string, o CreateOptions) (*builder, error) {
	list, err := listVersions(ctx, e.st, root)
	if err != nil {
		return nil, err
	}
	if len(list.versions) > 0 {
		return nil, errs.ErrExists
	}
	version := o.DataVersion
	if version == "" {
		version = "2.2"
	}
	return newBuilder(e, nil, &pb.Manifest{
		DataFormat:    &pb.DataStorageFormat{FileFormat: fileFormat, Version: version},
		TableMetadata: cloneMap(o.TableMetadata),
	})
}
