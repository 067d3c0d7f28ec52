package format

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
