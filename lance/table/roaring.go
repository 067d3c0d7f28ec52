package table

import (
	"github.com/RoaringBitmap/roaring/v2"

	"lancesql/lance/rowaddr"
)

// encodeRoaring serialises b; readers accept either form.
func encodeRoaring(b *roaring.Bitmap) ([]byte, error) { return rowaddr.EncodeBitmap(b) }

// decodeRoaring parses untrusted bytes.
func decodeRoaring(object string, b []byte) (*roaring.Bitmap, error) {
	return rowaddr.DecodeBitmap(object, b)
}
