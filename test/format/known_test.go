package format

import "lancesql/lance/file"

// knownReads lists what the reader does not read yet: FILE/COLUMN globs and why. It may only shrink.
func knownReads() map[string]string {
	return map[string]string{
		"*.2.0/*":        "version 2.0 pages",
		"list_*/*":       "nested types",
		"large_list_*/*": "nested types",
		"struct*/*":      "nested types",
		"map*/*":         "nested types",
		"fsl_struct*/*":  "nested types",
		"rows-*/*":       "nested types",
		"pages-*/l":      "nested types",
		"table_*/*":      "nested types",
		"dict*/*":        "dictionary types",
		"packed*/*":      "packed structs",
		"blob*/*":        "blob layout",
	}
}

// knownWrites lists what we do not write yet. It may only shrink.
func knownWrites() map[string]string {
	return map[string]string{
		"*list_*/*":  "nested types",
		"*struct*/*": "nested types",
		"*map*/*":    "nested types",
		"rows-*/*":   "nested types",
		"nested-*/*": "nested types",
		"*pages-*/*": "nested types",
		"*dict*/*":   "dictionary types",
		"*packed*/*": "packed structs",
	}
}

// knownLarger lists the shapes whose files are larger than they may be, with the ratio to the reference's. It may only
// shrink.
func knownLarger(v file.Version) map[string]float64 {
	if v == file.V21() {
		return map[string]float64{
			"int64 constant":            8.921,
			"int32 in runs":             101.790,
			"strings of 10 values":      23.301,
			"strings like URLs":         2.880,
			"text of 300 to 2000 bytes": 4.829,
			"decimal128 of 30 values":   24.301,
		}
	}
	return map[string]float64{
		"int64 of 50 wide values":   10.275,
		"int32 in runs":             93.376,
		"float64 of 20 values":      12.167,
		"strings of 10 values":      23.219,
		"strings like URLs":         2.874,
		"text of 300 to 2000 bytes": 4.865,
		"decimal128 of 30 values":   24.465,
	}
}
