package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"lancesql/internal/errs"
	"lancesql/internal/objstore"
)

// A tag is the object _refs/tags/{name}.json:
//
//	{"branch": null, "version": 7, "createdAt": "…", "updatedAt": "…", "manifestSize": 1234, "metadata": {}}
//
// Spec: "Branches and tags"; docs/format/layout.md.

// Tag is a name for a version. A tagged version is kept by clean-up.
type Tag struct {
	Name    string
	Version uint64
	Branch  string // "" for the main line; a version of another branch cannot be opened here
	Created time.Time
}

// tagFile is the content of a tag object.
type tagFile struct {
	Branch       *string         `json:"branch"`
	Version      uint64          `json:"version"`
	CreatedAt    *time.Time      `json:"createdAt,omitempty"`
	UpdatedAt    *time.Time      `json:"updatedAt,omitempty"`
	ManifestSize int64           `json:"manifestSize"`
	Metadata     json.RawMessage `json:"metadata"`
}

// tagNameMax bounds the length of a tag's name in bytes: file systems allow 255 with the suffix.
const tagNameMax = 240

func checkTagName(name string) error {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}
	if name == "" || len(name) > tagNameMax || strings.ContainsFunc(name, odd) || strings.HasPrefix(name, ".") ||
		strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.HasSuffix(name, ".lock") {
		return fmt.Errorf("tag name %q: %w", name, errs.ErrInvalid)
	}
	return nil
}

func (d *Dataset) tagObject(name string) string { return join(d.root, tagsDir, name+".json") }

// CreateTag names a version. errs.ErrExists if the tag is there, errs.ErrNotFound if the version is not, errs.ErrInvalid
// for a name that is not of letters, digits, '.', '_' and '-'.
func (d *Dataset) CreateTag(ctx context.Context, name string, version uint64) error {
	now := d.env.clock.Now().UTC()
	err := d.writeTag(ctx, name, version, func(f *tagFile, object string, encode func() ([]byte, error)) error {
		f.CreatedAt, f.UpdatedAt = &now, &now
		b, err := encode()
		if err != nil {
			return err
		}
		return d.env.st.PutIfAbsent(ctx, object, b)
	})
	if err != nil {
		return fmt.Errorf("create tag %q of %s: %w", name, d.root, err)
	}
	// A clean-up that read the tags before may have taken the version away meanwhile.
	if _, err := loadManifest(ctx, d.env.st, d.root, version, d.state.naming); errors.Is(err, errs.ErrNotFound) {
		_ = d.env.st.Delete(ctx, d.tagObject(name))
		return fmt.Errorf("create tag %q of %s: version %d: %w", name, d.root, version, err)
	}
	return nil
}

// MoveTag points an existing tag at another version. errs.ErrNotFound if the tag or the version does not exist.
func (d *Dataset) MoveTag(ctx context.Context, name string, version uint64) error {
	now := d.env.clock.Now().UTC()
	err := d.writeTag(ctx, name, version, func(f *tagFile, object string, encode func() ([]byte, error)) error {
		old, err := d.readTag(ctx, object)
		if err != nil {
			return err
		}
		f.CreatedAt, f.UpdatedAt = old.CreatedAt, &now
		if old.Metadata != nil {
			f.Metadata = old.Metadata
		}
		b, err := encode()
		if err != nil {
			return err
		}
		return d.env.st.Put(ctx, object, b)
	})
	if err != nil {
		return fmt.Errorf("move tag %q of %s: %w", name, d.root, err)
	}
	return nil
}

func (d *Dataset) writeTag(ctx context.Context, name string, version uint64, put func(f *tagFile, object string, encode func() ([]byte, error)) error) error {
	if err := checkTagName(name); err != nil {
		return err
	}
	of, err := d.At(ctx, version)
	if err != nil {
		return err
	}
	f := &tagFile{Version: version, ManifestSize: of.state.size, Metadata: json.RawMessage("{}")}
	return put(f, d.tagObject(name), func() ([]byte, error) { return json.MarshalIndent(f, "", "  ") })
}

func (d *Dataset) readTag(ctx context.Context, object string) (*tagFile, error) {
	b, err := d.env.st.ReadAll(ctx, object, refBytesMax)
	if err != nil {
		return nil, err
	}
	f := &tagFile{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, errs.Corrupt(object, -1, "tag: %v", err)
	}
	if f.Version == 0 {
		return nil, errs.Corrupt(object, -1, "tag without a version")
	}
	return f, nil
}

// DeleteTag removes a tag; its version is subject to clean-up again. errs.ErrNotFound if there is no such tag.
func (d *Dataset) DeleteTag(ctx context.Context, name string) error {
	err := checkTagName(name)
	if err == nil {
		if _, err = d.env.st.Stat(ctx, d.tagObject(name)); err == nil {
			err = d.env.st.Delete(ctx, d.tagObject(name))
		}
	}
	if err != nil {
		return fmt.Errorf("delete tag %q of %s: %w", name, d.root, err)
	}
	return nil
}

// ListTags returns the tags by name.
func (d *Dataset) ListTags(ctx context.Context) ([]Tag, error) {
	var objects []string
	isTag := func(base string) bool { return strings.HasSuffix(base, ".json") }
	if err := listObjects(ctx, d.env.st, join(d.root, tagsDir), isTag, func(i objstore.Info) { objects = append(objects, i.Name) }); err != nil {
		return nil, fmt.Errorf("list tags of %s: %w", d.root, err)
	}
	slices.Sort(objects)
	tags := make([]Tag, 0, len(objects))
	for _, object := range objects {
		f, err := d.readTag(ctx, object)
		if errors.Is(err, errs.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list tags of %s: %w", d.root, err)
		}
		tags = append(tags, f.tag(strings.TrimSuffix(path.Base(object), ".json")))
	}
	return tags, nil
}

func (f *tagFile) tag(name string) Tag {
	t := Tag{Name: name, Version: f.Version}
	if f.Branch != nil {
		t.Branch = *f.Branch
	}
	if f.CreatedAt != nil {
		t.Created = *f.CreatedAt
	}
	return t
}

// OpenTag opens the version a tag names, sharing this handle's caches. errs.ErrNotFound if there is no such tag,
// errs.ErrUnsupported if it names a version of another branch.
func (d *Dataset) OpenTag(ctx context.Context, name string) (*Dataset, error) {
	if err := checkTagName(name); err != nil {
		return nil, fmt.Errorf("open tag of %s: %w", d.root, err)
	}
	f, err := d.readTag(ctx, d.tagObject(name))
	if err != nil {
		return nil, fmt.Errorf("open tag %q of %s: %w", name, d.root, err)
	}
	if f.Branch != nil && *f.Branch != "" {
		return nil, fmt.Errorf("open tag %q of %s: branch %q: %w", name, d.root, *f.Branch, errs.ErrUnsupported)
	}
	return d.At(ctx, f.Version)
}
