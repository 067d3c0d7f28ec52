package wal

import "fmt"

// BodyRows counts the rows of a body made by EncodeBody without decoding them. errs are plain: the caller knows where the
// bytes come from.
func BodyRows(body []byte) (rows int64, err error) {
	for at := 0; at < len(body); {
		m, size, err := nextMessage(body[at:])
		if err != nil {
			return 0, fmt.Errorf("message at byte %d: %w", at, err)
		}
		if m == nil || m.kind != kindBatch {
			return 0, fmt.Errorf("message at byte %d is no record batch", at)
		}
		f := &flat{b: m.meta, budget: len(m.meta)}
		header := f.child(f.table(f.at(0)), messageHeader)
		rows += int64(f.scalar(header, batchRows, 8))
		at += size
	}
	return rows, nil
}
