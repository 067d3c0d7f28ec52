package table

import (
	"context"
	"fmt"
	"path"
	"slices"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// versionList is what a listing of _versions says.
type versionList struct {
	versions []uint64 // ascending; gaps are possible
	naming   naming   // V2 when there is no version
}

// listVersions lists the versions of a table. A table that mixes both naming schemes is corrupt.
// Why: probing version+1 would be one request less, but versions may have gaps and a missed one is a lost commit.
func listVersions(ctx context.Context, st objstore.Store, root string) (versionList, error) {
	var out versionList
	seen := [2]bool{}
	dir := join(root, versionsDir)
	err := st.List(ctx, dir, func(i objstore.Info) error {
		v, n, ok := parseManifestName(path.Base(i.Name))
		if !ok || i.Dir {
			return nil
		}
		if v == 0 || v > versionMax {
			return errs.Corrupt(i.Name, -1, "version %d", v)
		}
		seen[n] = true
		out.naming = n
		out.versions = append(out.versions, v)
		return nil
	})
	if err != nil {
		return versionList{}, fmt.Errorf("list versions: %w", err)
	}
	if seen[namingV1] && seen[namingV2] {
		return versionList{}, errs.Corrupt(dir, -1, "manifests of both naming schemes")
	}
	slices.Sort(out.versions)
	return out, nil
}

// loadManifest reads and decodes the manifest of version v. errs.ErrNotFound if it does not exist.
func loadManifest(ctx context.Context, st objstore.Store, root string, v uint64, n naming) (*state, error) {
	object := join(root, versionsDir, n.manifestName(v))
	b, err := st.ReadAll(ctx, object, manifestBytesMax)
	if err != nil {
		return nil, err
	}
	s, err := decodeManifest(object, b)
	if err != nil {
		return nil, err
	}
	if s.m.Version != v {
		return nil, errs.Corrupt(object, -1, "the manifest says version %d", s.m.Version)
	}
	s.naming = n
	return s, nil
}

// writeHint refreshes the hint of the newest version. Best effort: readers survive a missing, stale or damaged hint.
func writeHint(ctx context.Context, st objstore.Store, root string, v uint64) {
	_ = st.Put(ctx, join(root, versionsDir, hintName), fmt.Appendf(nil, `{"version":%d}`, v))
}
