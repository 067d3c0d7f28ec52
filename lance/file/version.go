package file

import "fmt"

// Version is the version of the data file format, as manifests record it. The footer of a 2.0 file says (0,3).
// Spec: file format, "Versions".
type Version struct{ Major, Minor uint16 }

// V20 is version 2.0, used by index files and older tables.
func V20() Version { return Version{2, 0} }

// V21 is version 2.1.
func V21() Version { return Version{2, 1} }

// V22 is version 2.2, the default for new tables.
func V22() Version { return Version{2, 2} }

// String returns the manifest's form, for example "2.2".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// fromFooter maps the pair stored in a footer to the version it means.
func fromFooter(major, minor uint16) (Version, bool) {
	switch (Version{major, minor}) {
	case Version{0, 3}, V20():
		return V20(), true
	case V21():
		return V21(), true
	case V22():
		return V22(), true
	}
	return Version{}, false
}

// unknownVersion names a version that is not read, for errors.
func unknownVersion(major, minor uint16) string {
	switch {
	case major == 0 && minor <= legacyMinorMax:
		return fmt.Sprintf("footer version %d.%d of the legacy format 0.1", major, minor)
	case Version{major, minor} == versionUnstable():
		return "footer version 2.3, which is unstable"
	}
	return fmt.Sprintf("footer version %d.%d", major, minor)
}

// footer returns the pair that a file of the version has in its footer.
func (v Version) footer() (major, minor uint16) {
	if v == V20() {
		return 0, 3
	}
	return v.Major, v.Minor
}
