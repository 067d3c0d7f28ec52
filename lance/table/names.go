package table

import (
	"encoding/hex"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Directories of a table root. Spec: docs/format/layout.md.
const (
	versionsDir     = "_versions"
	transactionsDir = "_transactions"
	deletionsDir    = "_deletions"
	indicesDir      = "_indices"
	dataDir         = "data"
	tagsDir         = "_refs/tags"
	branchesDir     = "_refs/branches"
	treeDir         = "tree" // of branches

	manifestSuffix = ".manifest"
	dataSuffix     = ".lance"
	txnSuffix      = ".txn"
	refSuffix      = ".json"
	hintName       = "latest_version_hint.json"
)

// naming is one of the two schemes of manifest names; a table uses exactly one.
type naming uint8

const (
	namingV2 naming = iota // 20 digits of 2^64-1-version: the newest sorts first
	namingV1               // the plain version, read and continued but never chosen
)

// manifestName returns the base name of the manifest of version v.
func (n naming) manifestName(v uint64) string {
	if n == namingV1 {
		return strconv.FormatUint(v, 10) + manifestSuffix
	}
	return fmt.Sprintf("%020d%s", math.MaxUint64-v, manifestSuffix)
}

// parseManifestName decodes a base name of _versions. Detached versions ("d…") and foreign names answer false.
func parseManifestName(base string) (v uint64, n naming, ok bool) {
	digits, found := strings.CutSuffix(base, manifestSuffix)
	if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, 0, false
	}
	x, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if len(digits) == 20 {
		return math.MaxUint64 - x, namingV2, true
	}
	return x, namingV1, true
}

// dataFileName spreads names over the key space of an object store: 24 binary digits, then 26 hex digits.
func dataFileName(id uuid.UUID) string {
	return fmt.Sprintf("%08b%08b%08b%s%s", id[0], id[1], id[2], hex.EncodeToString(id[3:]), dataSuffix)
}

// deletionName is the base name of a deletion file.
func deletionName(fragment uint64, d *DeletionFile) string {
	ext := "arrow"
	if d.Kind == DeletionBitmap {
		ext = "bin"
	}
	return fmt.Sprintf("%d-%d-%d.%s", fragment, d.ReadVersion, d.ID, ext)
}

func transactionName(readVersion uint64, id uuid.UUID) string {
	return fmt.Sprintf("%d-%s%s", readVersion, id, txnSuffix)
}

// join builds an object name below root; an empty root is the store's own.
func join(root string, parts ...string) string {
	return path.Join(append([]string{root}, parts...)...)
}

// plainSegment says whether s may stand as one path segment of an object name that came out of a file.
func plainSegment(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\\\x00")
}
