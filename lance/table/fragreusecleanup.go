package table

import (
	"context"
	"strings"

	"lancesql/internal/objstore"
)

// markMaps notes the row maps that a version names. Of a history that cannot be read nothing is known: then no row map
// is removed in this sweep. Spec: Fragment Reuse Index, "Expected Use Pattern".
func (w *sweep) markMaps(ctx context.Context, s *state, into map[string]bool) {
	h, err := (&Dataset{env: &env{st: w.st}, root: w.root, state: s}).fragmentReuse(ctx)
	if err != nil || h.Maintainable() != nil {
		w.keepMaps = true
		return
	}
	if h == nil {
		return
	}
	for i := range h.Steps {
		if p := h.Steps[i].Partition; p != nil && p.BaseID == nil {
			into[join(w.root, FragmentReuseDir, p.MapID.String())] = true
		}
	}
}

// collectMaps collects the folders of row maps, unless something may name them that was not read.
func (w *sweep) collectMaps(ctx context.Context) error {
	isRef := func(base string) bool { return strings.HasSuffix(base, ".json") }
	err := listObjects(ctx, w.st, join(w.root, branchesDir), isRef, func(objstore.Info) { w.keepMaps = true })
	if err != nil || w.keepMaps {
		return err
	}
	return w.collectFolders(ctx, FragmentReuseDir)
}
