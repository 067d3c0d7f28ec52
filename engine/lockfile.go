package engine

import (
	"context"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// openDataDir opens the local store of a data directory and locks it against other processes.
func openDataDir(ctx context.Context, path string) (store *objstore.Local, release func() error, err error) {
	return nil, nil, errs.ErrUnsupported
}
