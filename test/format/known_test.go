package format

import "lancesql/lance/file"

// knownReads lists what the reader does not read yet: FILE/COLUMN globs and why. It may only shrink.
func knownReads() map[string]string {
	return map[string]string{}
}

// knownWrites lists what we refuse to write, or what the reference does not read; docs/format/file.md has the reasons. It
// may only shrink.
func knownWrites() map[string]string {
	return map[string]string{
		"*fsl_struct*/*":      "pylance 14 reads fixed-size lists of structs only without columns of other lengths",
		"*map*.2.1/*":         "maps begin with 2.2, for the reference as well",
		"*blob*/*":            "blob columns are refused, by the reference from 2.2 on",
		"t_packed_var*.2.2/*": "pylance 14 fails on filters beside packed structs with variable members, in its own tables too",
		"*packed_var*.2.1/*":  "packed structs with variable members begin with 2.2",
	}
}

// knownLarger lists the shapes whose files are larger than they may be, with the ratio to the reference's. It may only
// shrink.
func knownLarger(file.Version) map[string]float64 {
	return map[string]float64{}
}

// knownDamage lists damaged files that are read worse than with an error. It may only shrink.
func knownDamage() map[string]string {
	return map[string]string{}
}
