package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// A branch is a table of its own below the main line's root, in tree/{name}. It begins as a shallow clone of a version:
// its first manifests name objects of the main line and of other branches through base paths. The object
// _refs/branches/{name}.json of the main line describes it; a '/' of the name is written %2F there.
//
//	{"parentBranch": null, "identifier": {"version_mapping": [[3, "…"]]}, "parentVersion": 3, "createAt": 1796030453, …}
//
// Spec: "Branches and tags"; docs/format/layout.md.

// Branch is a line of versions beside the main one. Its versions and those of its parent up to Version are one history.
type Branch struct {
	Name    string
	Parent  string // the branch it started from, "" for the main line
	Version uint64 // of the parent, that it started from
	Created time.Time
}

// branchFile is the content of a branch object.
type branchFile struct {
	ParentBranch  *string `json:"parentBranch"`
	ParentVersion uint64  `json:"parentVersion"`
	CreateAt      int64   `json:"createAt"` // seconds since the epoch
	Identifier    struct {
		VersionMapping [][]any `json:"version_mapping"` // version and identity of each branching on the way here
	} `json:"identifier"`
}

// Branch is the name of the branch the version belongs to, "" for the main line.
func (d *Dataset) Branch() string { return d.state.m.GetBranch() }

// mainRoot is the root of the main line, which is d's own unless d is a version of a branch.
func (d *Dataset) mainRoot() (string, error) { return mainRootOf(d.root, d.Branch()) }

func mainRootOf(root, branch string) (string, error) {
	if branch == "" {
		return root, nil
	}
	main, ok := strings.CutSuffix(root, treeDir+"/"+branch)
	if !ok || main != "" && !strings.HasSuffix(main, "/") {
		return "", fmt.Errorf("branch %q at %s, not in %s/%s of a table: %w", branch, root, treeDir, branch, errs.ErrUnsupported)
	}
	return strings.TrimSuffix(main, "/"), nil
}

// checkBranchName refuses names that are no path below tree/.
func checkBranchName(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if !plainSegment(part) || len(name) > tagNameMax {
			return fmt.Errorf("branch name %q: %w", name, errs.ErrInvalid)
		}
	}
	return nil
}

// OpenBranch opens the newest version of a branch, "" being the main line, sharing this handle's caches. errs.ErrNotFound
// if there is no such branch.
func (d *Dataset) OpenBranch(ctx context.Context, name string) (*Dataset, error) {
	root, err := d.branchRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open branch of %s: %w", d.root, err)
	}
	b, err := openLatest(ctx, d.env, root, nil)
	if err != nil {
		return nil, fmt.Errorf("open branch %q of %s: %w", name, d.root, err)
	}
	return b, nil
}

func (d *Dataset) branchRoot(name string) (string, error) {
	main, err := d.mainRoot()
	if err != nil || name == "" {
		return main, err
	}
	return join(main, treeDir, name), checkBranchName(name)
}

// ListBranches returns the branches of the table by name; the main line is none.
func (d *Dataset) ListBranches(ctx context.Context) ([]Branch, error) {
	main, err := d.mainRoot()
	if err != nil {
		return nil, fmt.Errorf("list branches: %w", err)
	}
	files, err := readBranches(ctx, d.env.st, main)
	if err != nil {
		return nil, fmt.Errorf("list branches of %s: %w", main, err)
	}
	out := make([]Branch, 0, len(files))
	for name, f := range files {
		b := Branch{Name: name, Version: f.ParentVersion, Created: time.Unix(f.CreateAt, 0).UTC()}
		if f.ParentBranch != nil {
			b.Parent = *f.ParentBranch
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b Branch) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// readBranches reads the branch objects of a main line.
func readBranches(ctx context.Context, st objstore.Store, main string) (map[string]*branchFile, error) {
	out := make(map[string]*branchFile)
	err := readRefs(ctx, st, join(main, branchesDir), func(name string, b []byte) error {
		f := &branchFile{}
		if err := json.Unmarshal(b, f); err != nil {
			return fmt.Errorf("branch: %w", err)
		}
		if f.ParentVersion == 0 {
			return errors.New("branch without a parent version")
		}
		branch, err := url.PathUnescape(name)
		if err != nil {
			return fmt.Errorf("branch name %q: %w", name, err)
		}
		out[branch] = f
		return nil
	})
	return out, err
}

// readRefs hands each reference in dir to read, whose error means a damaged object. One that is deleted meanwhile is
// passed over.
func readRefs(ctx context.Context, st objstore.Store, dir string, read func(name string, b []byte) error) error {
	var objects []string
	isRef := func(base string) bool { return strings.HasSuffix(base, refSuffix) }
	if err := listObjects(ctx, st, dir, isRef, func(i objstore.Info) { objects = append(objects, i.Name) }); err != nil {
		return err
	}
	slices.Sort(objects)
	for _, object := range objects {
		b, err := st.ReadAll(ctx, object, refBytesMax)
		if errors.Is(err, errs.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := read(strings.TrimSuffix(path.Base(object), refSuffix), b); err != nil {
			return errs.Corrupt(object, -1, "%v", err)
		}
	}
	return nil
}

// pinnedVersions are the versions of one line ("" or a branch) that tags name or branches start from, of the table whose
// main line is at main.
func pinnedVersions(ctx context.Context, st objstore.Store, main, line string) (map[uint64]bool, error) {
	pinned := make(map[uint64]bool)
	branches, err := readBranches(ctx, st, main)
	if err != nil {
		return nil, err
	}
	for name, f := range branches {
		if name == line {
			continue // what it stands on lies in other lines
		}
		if f.ParentBranch == nil && line == "" || f.ParentBranch != nil && *f.ParentBranch == line {
			pinned[f.ParentVersion] = true
		}
		// What a branch of a deleted branch stands on is only in its identifier, which does not name the lines.
		for _, at := range f.Identifier.VersionMapping {
			if len(at) == 0 {
				continue
			}
			if v, ok := at[0].(float64); ok && v >= 1 && v <= 1<<53 {
				pinned[uint64(v)] = true
			}
		}
	}
	err = readRefs(ctx, st, join(main, tagsDir), func(_ string, b []byte) error {
		f, err := parseTag(b)
		if err != nil {
			return err
		}
		if f.branch() == line {
			pinned[f.Version] = true
		}
		return nil
	})
	return pinned, err
}
