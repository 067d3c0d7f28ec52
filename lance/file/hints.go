package file

import (
	"math"
	"strconv"
	"strings"

	"lancesql/lance/encoding"
	"lancesql/lance/schema"
)

// The field metadata by which a writer is asked for encodings. Spec: file format, "What the reference writer picks".
const (
	hintPrefix          = "lance-encoding:"
	hintCompression     = hintPrefix + "compression"
	hintLevel           = hintPrefix + "compression-level"
	hintSplit           = hintPrefix + "bss"
	hintStructure       = hintPrefix + "structural-encoding"
	hintRuns            = hintPrefix + "rle-threshold"
	hintDictionaryUses  = hintPrefix + "dict-divisor"
	hintDictionaryRatio = hintPrefix + "dict-size-ratio"
	hintDictionaryItems = hintPrefix + "dict-values-compression"
)

// hintsOf reads the hints of a field with a column below a top-level field, which decides about the structure of pages if
// the field itself says nothing. Values that are not understood ask for nothing, as hints may.
func hintsOf(f, top *schema.Field) encoding.Hints {
	m := f.Metadata
	h := encoding.Hints{
		Compression:     compressionOf(m[hintCompression]),
		NoSplit:         strings.EqualFold(m[hintSplit], "off"),
		RunThreshold:    fraction(m[hintRuns]),
		DictionaryRatio: fraction(m[hintDictionaryRatio]),
		DictionaryItems: compressionOf(m[hintDictionaryItems]),
	}
	if n, err := strconv.ParseInt(m[hintLevel], 10, 8); err == nil {
		h.Level = int(n)
	}
	if n, err := strconv.ParseUint(m[hintDictionaryUses], 10, 31); err == nil {
		h.DictionaryUses = int(n)
	}
	structure, ok := m[hintStructure]
	if !ok {
		structure = top.Metadata[hintStructure]
	}
	switch strings.ToLower(structure) {
	case "miniblock":
		h.Structure = encoding.StructureMiniBlock
	case "fullzip":
		h.Structure = encoding.StructureFullZip
	}
	return h
}

func compressionOf(text string) encoding.Compression {
	switch strings.ToLower(text) {
	case "none":
		return encoding.CompressionNone
	case "lz4":
		return encoding.CompressionLZ4
	case "zstd":
		return encoding.CompressionZstd
	case "fsst":
		return encoding.CompressionFSST
	}
	return encoding.CompressionAuto
}

// fraction reads a number in (0, 1]; anything else is 0.
func fraction(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || x <= 0 {
		return 0
	}
	return min(x, 1)
}
