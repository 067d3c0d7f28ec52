package wire

import (
	"bytes"
	"math"
	"strconv"
)

// AppendFloat appends a DOUBLE (64 bits) or a FLOAT (32) with the fewest digits that say which it is, and with an exponent only if the
// decimal point would be more than 15 places away from the first digit, as MySQL does. Of a FLOAT MySQL shows six digits, which
// does not say which it is.
func AppendFloat(dst []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.AppendFloat(dst, f, 'g', -1, bits)
	}
	const places = 15
	text := strconv.AppendFloat(nil, f, 'e', -1, bits)
	if text[0] == '-' {
		dst, text = append(dst, '-'), text[1:]
	}
	mantissa, exponent, _ := bytes.Cut(text, []byte("e"))
	e, _ := strconv.Atoi(string(exponent)) // written above
	digits := bytes.TrimRight(append(mantissa[:1:1], bytes.TrimPrefix(mantissa[1:], []byte("."))...), "0")
	if len(digits) == 0 {
		return append(dst, '0')
	}
	switch point := e + 1; { // digits before the decimal point
	case point > places || point < 1-places:
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		return strconv.AppendInt(append(dst, 'e'), int64(e), 10)
	case point <= 0:
		dst = append(dst, "0."...)
		return append(append(dst, bytes.Repeat([]byte("0"), -point)...), digits...)
	case point >= len(digits):
		return append(append(dst, digits...), bytes.Repeat([]byte("0"), point-len(digits))...)
	default:
		return append(append(append(dst, digits[:point]...), '.'), digits[point:]...)
	}
}
