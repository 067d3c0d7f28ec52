package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lancesql/internal/errs"
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
	Branch  string // "" for the main line
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

// tagObject is where a tag lies: with the main line, whatever it names.
func (d *Dataset) tagObject(name string) (string, error) {
	main, err := d.mainRoot()
	if err == nil {
		err = checkTagName(name)
	}
	return join(main, tagsDir, name+refSuffix), err
}

// CreateTag names a version of this line: the main one, or the branch that d belongs to. errs.ErrExists if the tag is there, errs.ErrNotFound if the version is not, errs.ErrInvalid
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
		if object, bad := d.tagObject(name); bad == nil {
			_ = d.env.st.Delete(ctx, object)
		}
		return fmt.Errorf("create tag %q of %s: version %d: %w", name, d.root, version, err)
	}
	return nil
}

// MoveTag points an existing tag at another version of this line. errs.ErrNotFound if the tag or the version does not exist.
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
	object, err := d.tagObject(name)
	if err != nil {
		return err
	}
	of, err := d.At(ctx, version)
	if err != nil {
		return err
	}
	f := &tagFile{Version: version, ManifestSize: of.state.size, Metadata: json.RawMessage("{}")}
	if line := d.Branch(); line != "" {
		f.Branch = &line
	}
	return put(f, object, func() ([]byte, error) { return json.MarshalIndent(f, "", "  ") })
}

func (d *Dataset) readTag(ctx context.Context, object string) (*tagFile, error) {
	b, err := d.env.st.ReadAll(ctx, object, refBytesMax)
	if err != nil {
		return nil, err
	}
	f, err := parseTag(b)
	if err != nil {
		return nil, errs.Corrupt(object, -1, "%v", err)
	}
	return f, nil
}

// parseTag reads the content of a tag object.
func parseTag(b []byte) (*tagFile, error) {
	f := &tagFile{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("tag: %w", err)
	}
	if f.Version == 0 {
		return nil, errors.New("tag without a version")
	}
	return f, nil
}

// branch is the line of the tagged version.
func (f *tagFile) branch() string {
	if f.Branch == nil {
		return ""
	}
	return *f.Branch
}

// DeleteTag removes a tag; its version is subject to clean-up again. errs.ErrNotFound if there is no such tag.
func (d *Dataset) DeleteTag(ctx context.Context, name string) error {
	object, err := d.tagObject(name)
	if err == nil {
		if _, err = d.env.st.Stat(ctx, object); err == nil {
			err = d.env.st.Delete(ctx, object)
		}
	}
	if err != nil {
		return fmt.Errorf("delete tag %q of %s: %w", name, d.root, err)
	}
	return nil
}

// ListTags returns the tags of the table by name, those of branches among them.
func (d *Dataset) ListTags(ctx context.Context) ([]Tag, error) {
	main, err := d.mainRoot()
	if err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	tags := []Tag{}
	err = readRefs(ctx, d.env.st, join(main, tagsDir), func(name string, b []byte) error {
		f, err := parseTag(b)
		if err != nil {
			return err
		}
		tags = append(tags, f.tag(name))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tags of %s: %w", main, err)
	}
	return tags, nil
}

func (f *tagFile) tag(name string) Tag {
	t := Tag{Name: name, Version: f.Version, Branch: f.branch()}
	if f.CreatedAt != nil {
		t.Created = *f.CreatedAt
	}
	return t
}

// OpenTag opens the version a tag names, of whatever branch, sharing this handle's caches. errs.ErrNotFound if there is
// no such tag.
func (d *Dataset) OpenTag(ctx context.Context, name string) (*Dataset, error) {
	object, err := d.tagObject(name)
	if err != nil {
		return nil, fmt.Errorf("open tag of %s: %w", d.root, err)
	}
	f, err := d.readTag(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("open tag %q of %s: %w", name, d.root, err)
	}
	if f.branch() == d.Branch() {
		return d.At(ctx, f.Version)
	}
	root, err := d.branchRoot(f.branch())
	if err != nil {
		return nil, fmt.Errorf("open tag %q of %s: %w", name, d.root, err)
	}
	return (&Dataset{env: d.env, root: root}).At(ctx, f.Version)
}
